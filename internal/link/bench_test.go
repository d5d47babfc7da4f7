package link_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/require"
)

// loopback is a session over real sockets whose server runs handle.
func loopback(b testing.TB, handle func(*link.Session)) *link.Session {
	b.Helper()
	l, err := link.ListenUDP("127.0.0.1:0", link.Config{Identity: link.NewIdentity()})
	require.NoError(b, err)
	serve(l, handle)
	s, err := link.Dial(b.Context(), l.Addr().String(), link.Config{Identity: link.NewIdentity()})
	require.NoError(b, err)
	b.Cleanup(func() {
		s.Close(protocol.ErrClosed, "")
		l.Close()
	})
	return s
}

func BenchmarkEcho(b *testing.B) {
	s := loopback(b, echo)
	c, err := s.Open(b.Context())
	require.NoError(b, err)
	out := frame(strings.Repeat("x", 128))
	b.ReportAllocs()
	for b.Loop() {
		c.Send(out)
		c.Next()
	}
}

func BenchmarkEchoPipelined(b *testing.B) {
	s := loopback(b, echo)
	c, err := s.Open(b.Context())
	require.NoError(b, err)
	out := frame(strings.Repeat("x", 128))
	credit := make(chan struct{}, 1024)
	var reader sync.WaitGroup
	reader.Go(func() {
		for {
			if _, err := c.Next(); err != nil {
				return
			}
			<-credit
		}
	})
	b.ReportAllocs()
	b.SetBytes(128)
	for b.Loop() {
		credit <- struct{}{}
		c.Send(out)
	}
	c.CloseSend()
	reader.Wait()
}

func benchmarkOneWay(b *testing.B, size int) {
	done := make(chan struct{})
	n := 0
	s := loopback(b, func(s *link.Session) {
		defer close(done)
		c, err := s.Accept(b.Context())
		if err != nil {
			return
		}
		for {
			if _, err := c.Next(); err != nil {
				return
			}
			n++
		}
	})
	c, err := s.Open(b.Context())
	require.NoError(b, err)
	out := frame(strings.Repeat("x", size))
	b.ReportAllocs()
	b.SetBytes(int64(size))
	sent := 0
	for b.Loop() {
		c.Send(out)
		sent++
	}
	c.CloseSend()
	<-done
	require.Equal(b, sent, n)
}

func BenchmarkOneWay128(b *testing.B) { benchmarkOneWay(b, 128) }
func BenchmarkOneWay64K(b *testing.B) { benchmarkOneWay(b, 64<<10) }

func benchmarkDial(b *testing.B, tickets link.Tickets) {
	l, err := link.ListenUDP("127.0.0.1:0", link.Config{Identity: link.NewIdentity()})
	require.NoError(b, err)
	defer l.Close()
	serve(l, echo)
	c := link.Config{Identity: link.NewIdentity(), Tickets: tickets}
	b.ReportAllocs()
	for b.Loop() {
		s, err := link.Dial(b.Context(), l.Addr().String(), c)
		if err != nil {
			b.Fatal(err)
		}
		ch, err := s.Open(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		ch.Send(frame("x"))
		if _, err := ch.Next(); err != nil {
			b.Fatal(err)
		}
		s.Close(protocol.ErrClosed, "")
	}
}

func BenchmarkDial(b *testing.B)        { benchmarkDial(b, nil) }
func BenchmarkDialResumed(b *testing.B) { benchmarkDial(b, link.MemoryTickets()) }

// BenchmarkChannel opens a channel, sends a frame each way and ends it.
func BenchmarkChannel(b *testing.B) {
	s := loopback(b, echo)
	out := frame("x")
	b.ReportAllocs()
	for b.Loop() {
		c, err := s.Open(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		c.Send(out)
		c.Next()
		c.CloseSend()
		c.Next()
	}
}
