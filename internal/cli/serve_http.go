package cli

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/internal/extras"
	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/spf13/pflag"
)

// httpOptions say where the operators' page, metrics and health are.
type httpOptions struct {
	addr      string // empty = nowhere
	tokenFile string

	token string // of the file
}

func (o *httpOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.addr, "http", "", "address for operators: a page, /metrics, /healthz, /readyz, /debug/pprof")
	f.StringVar(&o.tokenFile, "http-token-file", "", "file with the token that requests there need; without it only loopback addresses are served")
}

// check reads the token and refuses what strangers could read.
func (o *httpOptions) check() error {
	if o.tokenFile != "" {
		text, err := os.ReadFile(o.tokenFile)
		if err != nil {
			return err
		}
		if o.token = strings.TrimSpace(string(text)); len(o.token) < 16 {
			return usagef("the token in %s has less than 16 characters", o.tokenFile)
		}
	}
	if o.addr == "" || o.token != "" {
		return nil
	}
	at, err := net.ResolveTCPAddr("tcp", o.addr)
	if err != nil {
		return usagef("--http %s: %v", o.addr, err)
	}
	if !at.IP.IsLoopback() {
		e := usagef("--http %s is open to others", o.addr)
		e.hint = "set a token: --http-token-file FILE; or serve a loopback address"
		return e
	}
	return nil
}

// operatorKey is the identity of the registry's own client. It is made from the
// registry's, so that it is the same at each start and nobody else's.
func operatorKey(of ed25519.PrivateKey) ed25519.PrivateKey {
	seed := sha256.Sum256(append([]byte("pilotgo operators' page\x00"), of.Seed()...))
	return ed25519.NewKeyFromSeed(seed[:])
}

func operatorHash(of ed25519.PrivateKey) protocol.KeyHash {
	return protocol.KeyHashOf(operatorKey(of).Public().(ed25519.PublicKey))
}

// serveHTTP serves the operators' address until the returned function is called.
func (a *app) serveHTTP(ctx context.Context, o httpOptions, op extras.Operator, about extras.OperatorOptions, at string, key ed25519.PrivateKey) (addr string, stop func(), err error) {
	l, err := net.Listen("tcp", o.addr)
	if err != nil {
		return "", nil, listenError("--http", o.addr, err)
	}
	dialing, cancel := context.WithTimeout(ctx, connectPatience)
	defer cancel()
	about.Conn, err = client.Dial(dialing, ownAddress(at), client.Options{
		Key: operatorKey(key), NoState: true, Name: "operators' page",
		RegistryKey: link.Fingerprint(key.Public().(ed25519.PublicKey)),
	})
	if err != nil {
		l.Close()
		return "", nil, err
	}
	about.Token = o.token
	handler, err := op.Start(about)
	if err != nil {
		l.Close()
		about.Conn.Close()
		return "", nil, err
	}
	s := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 1 << 16}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Serve(few(l, operatorsConns))
	}()
	return l.Addr().String(), func() {
		op.Close()
		s.Close()
		<-ended
		about.Conn.Close()
	}, nil
}

// operatorsConns is how many connections the operators' address has at once.
// Others wait, in the system's queue.
const operatorsConns = 512

// boundedListener is one of few connections: the files that more would take are
// the log's too.
type boundedListener struct {
	net.Listener
	places chan struct{}
}

func few(l net.Listener, n int) net.Listener {
	return &boundedListener{l, make(chan struct{}, n)}
}

// Accept implements net.Listener.
func (l *boundedListener) Accept() (net.Conn, error) {
	l.places <- struct{}{}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return &boundedConn{c, sync.OnceFunc(func() { <-l.places })}, nil
}

type boundedConn struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *boundedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// ownAddress is how this machine reaches a socket of its own.
func ownAddress(at string) string {
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		return at
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "127.0.0.1" // a socket on [::] takes it too
	}
	return net.JoinHostPort(host, port)
}
