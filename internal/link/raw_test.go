package link_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/internal/simnet"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"
)

// These tests have something else than this package at the other end.

// rawCert is a certificate of any kind of key.
func rawCert(t *testing.T, key any, public any) tls.Certificate {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func ed25519Cert(t *testing.T) tls.Certificate {
	id := link.NewIdentity()
	return rawCert(t, id.Key, id.Public())
}

func ecdsaCert(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return rawCert(t, key, key.Public())
}

func rawListen(t *testing.T, n *simnet.Network, node string, conf *tls.Config) *quic.Listener {
	t.Helper()
	pc := n.Listen(node)
	tr := &quic.Transport{Conn: pc}
	l, err := tr.Listen(conf, nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		l.Close()
		tr.Close()
		pc.Close()
	})
	return l
}

func rawDial(t *testing.T, n *simnet.Network, conf *tls.Config) (*quic.Conn, error) {
	t.Helper()
	pc := n.Listen("raw")
	tr := &quic.Transport{Conn: pc}
	t.Cleanup(func() {
		tr.Close()
		pc.Close()
	})
	addr, err := net.ResolveUDPAddr("udp", n.Addr("registry"))
	require.NoError(t, err)
	conf.InsecureSkipVerify = true
	return tr.Dial(t.Context(), addr, conf, nil)
}

func TestServersThatAreNoRegistry(t *testing.T) {
	for name, c := range map[string]struct {
		conf func(t *testing.T) *tls.Config
		want protocol.Code
	}{
		"other protocol": {func(t *testing.T) *tls.Config {
			return &tls.Config{Certificates: []tls.Certificate{ed25519Cert(t)}, NextProtos: []string{"h3"}}
		}, protocol.ErrVersion},
		"other kind of key": {func(t *testing.T) *tls.Config {
			return &tls.Config{Certificates: []tls.Certificate{ecdsaCert(t)}, NextProtos: []string{protocol.ALPN}}
		}, protocol.ErrWrongKey},
		"no certificate": {func(*testing.T) *tls.Config {
			return &tls.Config{NextProtos: []string{protocol.ALPN}, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
				return nil, errors.New("none")
			}}
		}, protocol.ErrNotConnected},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *simnet.Network) {
				rawListen(t, n, "registry", c.conf(t))
				_, err := dial(t, n, "client", "registry", link.Config{})
				requireCode(t, c.want, err)
			})
		})
	}
}

func TestServerThatAnswersNonsense(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		pc := n.Listen("registry")
		t.Cleanup(func() { pc.Close() })
		go func() {
			b := make([]byte, 2000)
			for {
				size, from, err := pc.ReadFrom(b)
				if err != nil {
					return
				}
				for i := range b[:size] {
					b[i] ^= 0x55
				}
				pc.WriteTo(b[:size], from)
			}
		}()
		_, err := dial(t, n, "client", "registry", link.Config{})
		requireCode(t, protocol.ErrTimeout, err)
	})
}

func TestClientsThatProveNothing(t *testing.T) {
	for name, c := range map[string]struct {
		proto string
		certs func(t *testing.T) []tls.Certificate
	}{
		"no certificate":    {protocol.ALPN, func(*testing.T) []tls.Certificate { return nil }},
		"other kind of key": {protocol.ALPN, func(t *testing.T) []tls.Certificate { return []tls.Certificate{ecdsaCert(t)} }},
		"other protocol":    {"h3", func(t *testing.T) []tls.Certificate { return []tls.Certificate{ed25519Cert(t)} }},
		"another's key": {protocol.ALPN, func(t *testing.T) []tls.Certificate {
			cert := ed25519Cert(t)
			cert.PrivateKey = link.NewIdentity().Key // signs for a key that it does not have
			return []tls.Certificate{cert}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *simnet.Network) {
				l := listen(t, n, "registry", link.Config{})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				conn, err := rawDial(t, n, &tls.Config{NextProtos: []string{c.proto}, Certificates: c.certs(t)})
				if err == nil {
					<-conn.Context().Done()
				}
				_, err = l.Accept(ctx)
				require.Equal(t, context.DeadlineExceeded, err)
			})
		})
	}
}

// A certificate that looks like another's, with the own key, proves the own key.
func TestOnlyTheKeyCounts(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		l := listen(t, n, "registry", link.Config{})
		cert := ed25519Cert(t)
		conn, err := rawDial(t, n, &tls.Config{NextProtos: []string{protocol.ALPN}, Certificates: []tls.Certificate{cert}})
		require.NoError(t, err)
		s, err := l.Accept(t.Context())
		require.NoError(t, err, "a certificate without dates or names will do")
		require.Equal(t, cert.PrivateKey.(ed25519.PrivateKey).Public(), s.PeerKey())
		conn.CloseWithError(0, "")
		<-s.Done()
		requireCode(t, protocol.ErrNotConnected, s.Err())
	})
}

func TestCutAtEveryByte(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		l := listen(t, n, "registry", link.Config{})
		conn, err := rawDial(t, n, &tls.Config{NextProtos: []string{protocol.ALPN}, Certificates: []tls.Certificate{ed25519Cert(t)}})
		require.NoError(t, err)
		defer conn.CloseWithError(0, "")
		s, err := l.Accept(t.Context())
		require.NoError(t, err)
		whole := frame("some frame")
		for cut := 1; cut <= len(whole); cut++ {
			str, err := conn.OpenStreamSync(t.Context())
			require.NoError(t, err)
			_, err = str.Write(whole[:cut])
			require.NoError(t, err)
			require.NoError(t, str.Close())
			c, err := s.Accept(t.Context())
			require.NoError(t, err)
			body, err := c.Next()
			if cut == len(whole) {
				require.Equal(t, "some frame", string(body))
				_, err = c.Next()
				require.Equal(t, io.EOF, err)
				continue
			}
			requireCode(t, protocol.ErrMalformed, err)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			c.Reset(protocol.ErrMalformed)
		}
	})
}

func TestNobodyAcceptsInTime(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		listen(t, n, "registry", link.Config{}) // and no Accept
		refused := 0
		for i := range 40 {
			s, err := dial(t, n, fmt.Sprint("c", i), "registry", link.Config{})
			require.NoError(t, err)
			time.Sleep(10 * oneWay)
			if err := s.Err(); err != nil {
				requireCode(t, protocol.ErrNotConnected, err)
				refused++
			}
		}
		require.Equal(t, 8, refused)
	})
}

func TestErrorsOfTheCarrier(t *testing.T) {
	for _, c := range []struct {
		err  error
		want protocol.Code
	}{
		{&quic.IdleTimeoutError{}, protocol.ErrNotConnected},
		{&quic.HandshakeTimeoutError{}, protocol.ErrTimeout},
		{&quic.StatelessResetError{}, protocol.ErrNotConnected},
		{&quic.VersionNegotiationError{}, protocol.ErrVersion},
		{&quic.TransportError{ErrorCode: quic.ConnectionRefused, Remote: true}, protocol.ErrNotConnected},
		{&quic.TransportError{ErrorCode: quic.NoError, Remote: true}, protocol.ErrNotConnected},
		{&quic.TransportError{ErrorCode: quic.InternalError}, protocol.ErrInternal},
		{&quic.TransportError{ErrorCode: quic.FrameEncodingError}, protocol.ErrMalformed},
		{&quic.TransportError{ErrorCode: quic.ProtocolViolation, Remote: true}, protocol.ErrMalformed},
		{&quic.TransportError{ErrorCode: 0x100 + 120, Remote: true}, protocol.ErrVersion},
		{&quic.TransportError{ErrorCode: 0x100 + 42, Remote: true}, protocol.ErrNotConnected},
		{&quic.ApplicationError{ErrorCode: 6, Remote: true, ErrorMessage: "taken"}, protocol.ErrNodeIDTaken},
		{&quic.ApplicationError{ErrorCode: 0, Remote: true}, protocol.ErrNotConnected},
		{&quic.ApplicationError{ErrorCode: 6}, protocol.ErrClosed},
		{&net.OpError{Op: "write", Err: os.ErrPermission}, protocol.ErrNotConnected},
		{quic.ErrTransportClosed, protocol.ErrClosed},
		{errors.New("of a kind not known"), protocol.ErrNotConnected},
	} {
		for _, mapped := range []error{link.SessionError(c.err), link.ChannelError(fmt.Errorf("read: %w", c.err))} {
			requireCode(t, c.want, mapped)
		}
	}
	requireCode(t, protocol.ErrClosed, link.ChannelError(quic.ErrStreamClosed))
	require.NoError(t, link.SessionError(nil))
	require.NoError(t, link.ChannelError(nil))
}

func TestSmallBuffersAreLoggedOnce(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer pc.Close()
	require.NoError(t, pc.(*net.UDPConn).SetReadBuffer(4096))
	var log strings.Builder
	link.WarnBuffer(pc, slog.New(slog.NewTextHandler(&log, nil)))
	require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
	require.Contains(t, log.String(), "fix=")
}
