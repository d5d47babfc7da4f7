package main

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"io"
	"math/big"
	"net"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
)

const relayALPN = "bare-relay"

func relayTLS() (*tls.Config, error) {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	t := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().AddDate(1, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, t, t, pub, key)
	if err != nil {
		return nil, err
	}
	cert := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	return &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{relayALPN}}, nil
}

// relayConfig is the same on both sides; idle connections stay open.
func relayConfig() *quic.Config {
	return &quic.Config{MaxIdleTimeout: 5 * time.Minute}
}

func serveRelay() error {
	conf, err := relayTLS()
	if err != nil {
		return err
	}
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return err
	}
	l, err := (&quic.Transport{Conn: socket}).Listen(conf, relayConfig())
	if err != nil {
		return err
	}
	restOnSignal()
	fmt.Println("READY", socket.LocalAddr())
	r := &relay{}
	for {
		c, err := l.Accept(context.Background())
		if err != nil {
			return err
		}
		go func() {
			s, err := c.AcceptStream(context.Background())
			if err == nil {
				r.serve(s)
			}
		}()
	}
}

// relay pushes every record it gets to every subscriber and acks it with its
// number.
type relay struct {
	mu   sync.Mutex
	seq  uint64
	subs []*sender
}

func (r *relay) serve(s *quic.Stream) {
	in := bufio.NewReaderSize(s, 64<<10)
	role, err := in.ReadByte()
	if err != nil {
		return
	}
	out := newSender(s)
	if role == 'S' {
		out.put([]byte{'k'})
		out.wake()
		r.mu.Lock()
		r.subs = append(r.subs, out)
		r.mu.Unlock()
		return
	}
	defer out.close()
	for {
		size, err := in.Peek(2)
		if err != nil {
			return
		}
		n := 2 + int(binary.BigEndian.Uint16(size))
		record, err := in.Peek(n)
		if err != nil {
			return
		}
		r.publish(record, out, in.Buffered()-n < 2)
		if _, err := in.Discard(n); err != nil {
			return
		}
	}
}

func (r *relay) publish(record []byte, acks *sender, last bool) {
	r.mu.Lock()
	r.seq++
	seq, subs := r.seq, r.subs
	for _, s := range subs {
		s.put(record)
	}
	r.mu.Unlock()
	acks.put(binary.BigEndian.AppendUint64(nil, seq))
	if !last {
		return
	}
	for _, s := range subs {
		s.wake()
	}
	acks.wake()
}

// sender coalesces: what gathers while one write is under way leaves in the next.
type sender struct {
	mu          sync.Mutex
	cond        *sync.Cond
	buf, spare  []byte
	closed      bool
	destination io.Writer
}

func newSender(w io.Writer) *sender {
	s := &sender{destination: w}
	s.cond = sync.NewCond(&s.mu)
	go s.loop()
	return s
}

func (s *sender) loop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		for len(s.buf) == 0 && !s.closed {
			s.cond.Wait()
		}
		if s.closed {
			return
		}
		b := s.buf
		s.buf = s.spare[:0]
		s.cond.Broadcast()
		s.mu.Unlock()
		_, err := s.destination.Write(b)
		s.mu.Lock()
		s.spare = b
		if err != nil {
			s.closed = true
		}
	}
}

func (s *sender) put(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.buf) > 4<<20 && !s.closed {
		s.cond.Broadcast()
		s.cond.Wait()
	}
	s.buf = append(s.buf, b...)
}

func (s *sender) wake() { s.cond.Broadcast() }

func (s *sender) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cond.Broadcast()
}

// dialRelay opens a connection of its own with one stream in a role: 'P' or 'S'.
func dialRelay(ctx context.Context, addr string, role byte) (*quic.Stream, func(), error) {
	conf := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{relayALPN}} //nolint:gosec // loopback, own child
	c, err := quic.DialAddr(ctx, addr, conf, relayConfig())
	if err != nil {
		return nil, nil, err
	}
	s, err := c.OpenStreamSync(ctx)
	if err == nil {
		_, err = s.Write([]byte{role})
	}
	if err == nil && role == 'S' {
		_, err = io.ReadFull(s, make([]byte, 1))
	}
	return s, func() { c.CloseWithError(0, "") }, err
}
