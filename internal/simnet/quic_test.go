package simnet_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotgo/pilotgo/internal/simnet"
	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"
)

// TestMain fails if quic-go warned about the sockets: the warning is printed
// once, by whichever test is first, and belongs on no one's stderr.
func TestMain(m *testing.M) {
	var warnings bytes.Buffer
	log.SetOutput(&warnings)
	code := m.Run()
	if warnings.Len() > 0 {
		fmt.Print("log output: ", warnings.String())
		code = 1
	}
	os.Exit(code)
}

// serverTLS has one certificate for all tests; making it inside a bubble would
// tie it to the year 2000.
var serverTLS = func() *tls.Config {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	cert, err := x509.CreateCertificate(nil, template, template, public, private)
	if err != nil {
		panic(err)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: private}},
		NextProtos:   []string{"test"},
	}
}()

var clientTLS = &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"test"}}

// transport is a QUIC endpoint on a node, closed with the test.
func transport(t *testing.T, n *simnet.Network, node string) *quic.Transport {
	t.Helper()
	pc := n.Listen(node)
	tr := &quic.Transport{Conn: pc}
	t.Cleanup(func() {
		_ = tr.Close()
		_ = pc.Close()
	})
	return tr
}

// serve echoes, at the registry, every stream of every connection until the test
// ends.
func serve(t *testing.T, n *simnet.Network, conf *quic.Config) {
	t.Helper()
	ln, err := transport(t, n, "registry").Listen(serverTLS, conf)
	require.NoError(t, err)
	go func() {
		for {
			conn, err := ln.Accept(context.Background())
			if err != nil {
				return
			}
			go echo(conn)
		}
	}()
}

func echo(conn *quic.Conn) {
	for {
		s, err := conn.AcceptStream(context.Background())
		if err != nil {
			return
		}
		go func() {
			_, _ = io.Copy(s, s)
			_ = s.Close()
		}()
	}
}

// dial connects a to the registry.
func dial(t *testing.T, n *simnet.Network, conf *quic.Config) (*quic.Conn, error) {
	t.Helper()
	return transport(t, n, "a").Dial(t.Context(), addr(t, n, "registry"), clientTLS, conf)
}

// roundTrip sends data through an echoing stream.
func roundTrip(t *testing.T, conn *quic.Conn, data []byte) {
	t.Helper()
	s, err := conn.OpenStreamSync(t.Context())
	require.NoError(t, err)
	go func() {
		_, _ = s.Write(data)
		_ = s.Close()
	}()
	got, err := io.ReadAll(s)
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, got))
}

// quicBubble is bubble with the order of endings that QUIC needs: endpoints say
// goodbye, then the network closes.
func quicBubble(t *testing.T, o simnet.Options, test func(t *testing.T, n *simnet.Network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(o)
		t.Cleanup(n.Close)
		test(t, n)
	})
}

func TestHandshakeTakesOneRoundTrip(t *testing.T) {
	quicBubble(t, simnet.Options{Latency: latency}, func(t *testing.T, n *simnet.Network) {
		serve(t, n, nil)
		start := time.Now()
		_, err := dial(t, n, nil)
		require.NoError(t, err)
		require.Equal(t, 2*latency, time.Since(start))
	})
}

func TestIdleTimeoutUnderPartition(t *testing.T) {
	for name, cut := range map[string]func(*simnet.Network){
		"both ways": func(n *simnet.Network) { n.Isolate("a") },
		"one way":   func(n *simnet.Network) { n.PartitionOneWay("registry", "a") },
	} {
		t.Run(name, func(t *testing.T) {
			quicBubble(t, simnet.Options{Latency: latency}, func(t *testing.T, n *simnet.Network) {
				conf := &quic.Config{MaxIdleTimeout: 30 * time.Second}
				serve(t, n, conf)
				conn, err := dial(t, n, conf)
				require.NoError(t, err)
				time.Sleep(time.Second)
				synctest.Wait()

				cut(n)
				start := time.Now()
				<-conn.Context().Done()
				var idle *quic.IdleTimeoutError
				require.ErrorAs(t, context.Cause(conn.Context()), &idle)
				require.InDelta(t, 30*time.Second, time.Since(start), float64(time.Second))
			})
		})
	}
}

func TestOneWayPartitionStopsHandshake(t *testing.T) {
	quicBubble(t, simnet.Options{Latency: latency}, func(t *testing.T, n *simnet.Network) {
		serve(t, n, nil)
		n.PartitionOneWay("registry", "a")
		conf := &quic.Config{HandshakeIdleTimeout: 5 * time.Second}
		_, err := dial(t, n, conf)
		require.Error(t, err)
		require.Positive(t, n.Stats("a", "registry").Delivered)
		require.Positive(t, n.Stats("registry", "a").Sent)
		require.Zero(t, n.Stats("registry", "a").Delivered)

		n.Heal("registry", "a")
		_, err = dial(t, n, conf)
		require.NoError(t, err)
	})
}

func TestTransferSurvives(t *testing.T) {
	for name, link := range map[string]simnet.Link{
		"nothing":     {Latency: latency},
		"loss":        {Latency: latency, Loss: 0.2},
		"duplication": {Latency: latency, Duplicate: 0.5},
		"reordering":  {Latency: latency, Reorder: 0.3},
		"a slow line": {Latency: latency, Bandwidth: 100_000},
		"all at once": {Latency: latency, Jitter: latency, Loss: 0.1, Duplicate: 0.1, Reorder: 0.1, Bandwidth: 1_000_000},
	} {
		t.Run(name, func(t *testing.T) {
			quicBubble(t, simnet.Options{Latency: latency}, func(t *testing.T, n *simnet.Network) {
				serve(t, n, nil)
				conn, err := dial(t, n, nil)
				require.NoError(t, err)
				n.SetLink("", "", link)
				roundTrip(t, conn, bytes.Repeat([]byte("0123456789abcdef"), 1<<14))

				stats := n.Stats("a", "registry")
				require.Equal(t, link.Loss > 0 || link.Bandwidth > 0, stats.Lost > 0)
				require.Equal(t, link.Duplicate > 0, stats.Doubled > 0)
				require.Equal(t, link.Reorder > 0, stats.Reordered > 0)
			})
		})
	}
}

func TestServerRestartsAtItsAddress(t *testing.T) {
	quicBubble(t, simnet.Options{Latency: latency}, func(t *testing.T, n *simnet.Network) {
		for range 3 {
			pc := n.Listen("registry")
			tr := &quic.Transport{Conn: pc}
			_, err := tr.Listen(serverTLS, nil)
			require.NoError(t, err)
			_, err = dial(t, n, nil)
			require.NoError(t, err)
			require.NoError(t, tr.Close())
			require.NoError(t, pc.Close())
		}
	})
}

// A network that is closed first must not keep QUIC from ending.
func TestNetworkClosesUnderQUIC(t *testing.T) {
	quicBubble(t, simnet.Options{Latency: latency}, func(t *testing.T, n *simnet.Network) {
		serve(t, n, nil)
		conn, err := dial(t, n, nil)
		require.NoError(t, err)
		n.Close()
		<-conn.Context().Done()
		require.ErrorIs(t, context.Cause(conn.Context()), net.ErrClosed)
	})
}

func TestManyNetworksAtOnce(t *testing.T) {
	for i := range 500 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			quicBubble(t, simnet.Options{Latency: latency, Seed: uint64(i)}, func(t *testing.T, n *simnet.Network) {
				serve(t, n, nil)
				conn, err := dial(t, n, nil)
				require.NoError(t, err)
				roundTrip(t, conn, []byte("hello"))
			})
		})
	}
}
