package link

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
)

// quicConfig turns limits into QUIC's settings.
func quicConfig(l Limits) *quic.Config {
	return &quic.Config{
		HandshakeIdleTimeout: l.Handshake,
		MaxIdleTimeout:       l.Idle,

		// The window starts at half: a peer that fills channels nobody reads
		// costs half, a fast reader gets all of it after a few round trips.
		InitialStreamReceiveWindow: uint64(max(l.Window/2, 1)),
		MaxStreamReceiveWindow:     uint64(l.Window),

		// All of it from the start: a window is a promise, not memory.
		InitialConnectionReceiveWindow: uint64(l.Total),
		MaxConnectionReceiveWindow:     uint64(l.Total),

		MaxIncomingStreams:    int64(l.Channels),
		MaxIncomingUniStreams: -1, // channels go both ways

		// A replayed 0-RTT flight would execute a publish again.
		Allow0RTT: false,
	}
}

// transport runs QUIC on a socket.
type transport struct {
	*quic.Transport
	own    bool    // the socket is closed with it
	shared *Socket // of which it is
}

func (t transport) close() {
	if t.shared != nil {
		t.shared.giveBack()
		return
	}
	t.Transport.Close()
	if t.own {
		t.Conn.Close()
	}
}

func newTransport(pc net.PacketConn, own bool) transport {
	silenceBuffers()
	return transport{
		Transport: &quic.Transport{
			Conn: pc,
			// With the default of 4 bytes two clients in 65,000 get the same
			// id sooner or later, and the second one hears nothing for ever.
			ConnectionIDLength: 8,
		},
		own: own,
	}
}

// serve prepares a transport for a listener. The keys are derived from the
// registry's, so that after a restart its clients are told at their next packet
// that their sessions are gone, and their address tokens still hold. Each socket
// has its own key for resets: with one for several, who has seen a packet to one
// of them could have another end the session (RFC 9000 section 21.11).
func (t transport) serve(c Config) {
	reset := quic.StatelessResetKey(derive(c.Identity, "stateless reset "+t.Conn.LocalAddr().String()))
	token := quic.TokenGeneratorKey(derive(c.Identity, "address token"))
	t.StatelessResetKey = &reset
	t.TokenGeneratorKey = &token
	flood, each := &flood{most: c.Limits.Unproven}, newSources(c.Limits.Source)
	t.VerifySourceAddress = func(from net.Addr) bool {
		now := time.Now()
		return flood.above(now) || !each.take(Source(from), now)
	}
}

// errTooMany refuses a handshake, without a reason that the other side could see.
var errTooMany = errors.New("too many handshakes from this address")

// listenConfig is quicConfig for a listener, which refuses handshakes above the
// rate of their source. Only those from addresses that have shown that they
// receive count: others could come in anybody's name.
func listenConfig(l Limits) *quic.Config {
	c := quicConfig(l)
	each := newSources(l.Source)
	c.GetConfigForClient = func(info *quic.ClientInfo) (*quic.Config, error) {
		if info.AddrVerified && !each.take(Source(info.RemoteAddr), time.Now()) {
			return nil, errTooMany
		}
		return c, nil
	}
	return c
}

func derive(id Identity, purpose string) [32]byte {
	mac := hmac.New(sha256.New, id.Key.Seed())
	mac.Write([]byte("pilotgo " + purpose))
	return [32]byte(mac.Sum(nil))
}

// flood counts handshakes by the second.
type flood struct {
	most int

	mu     sync.Mutex
	second int64
	seen   int
}

// above counts one more and reports whether there were too many this second.
func (f *flood) above(now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := now.Unix(); s != f.second {
		f.second, f.seen = s, 0
	}
	f.seen++
	return f.seen > f.most
}

const (
	silence = "QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING"

	// wantBuffer is what quic-go asks the system for.
	wantBuffer = 7 << 20
)

// silenceBuffers keeps quic-go from printing to standard error, which belongs
// to the user, when the system grants smaller socket buffers than it asks for;
// the environment is the only switch it has. warnBuffer says it instead.
func silenceBuffers() {
	if os.Getenv(silence) == "" {
		os.Setenv(silence, "true")
	}
}

var bufferWarned atomic.Bool // one line per process is enough

// warnBuffer tells how to get larger buffers, after QUIC has asked for them.
func warnBuffer(pc net.PacketConn, log *slog.Logger) {
	udp, ok := pc.(*net.UDPConn)
	if !ok {
		return
	}
	got := receiveBuffer(udp)
	if got == 0 || got >= wantBuffer || !bufferWarned.CompareAndSwap(false, true) {
		return
	}
	log.Warn("small UDP receive buffer: bursts lose packets", "bytes", got, "want", wantBuffer, "fix", bufferFix())
}

func bufferFix() string {
	switch runtime.GOOS {
	case "linux":
		return "sysctl -w net.core.rmem_max=7500000 net.core.wmem_max=7500000"
	case "darwin", "freebsd":
		return "sysctl kern.ipc.maxsockbuf=8441037"
	}
	return "raise the system's maximum for socket buffers"
}
