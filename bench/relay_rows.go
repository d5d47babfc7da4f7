package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"time"
)

func record() []byte {
	b := make([]byte, 2+payloadSize)
	binary.BigEndian.PutUint16(b, payloadSize)
	return b
}

const (
	latencySamples = 10_000
	ackedMessages  = 300_000
	readers        = 100
	fanOutMessages = 10_000
)

func relayPush(c *child) (figures, error) {
	ctx := context.Background()
	sub, closeSub, err := dialRelay(ctx, c.addr, 'S')
	if err != nil {
		return nil, err
	}
	defer closeSub()
	pub, closePub, err := dialRelay(ctx, c.addr, 'P')
	if err != nil {
		return nil, err
	}
	defer closePub()
	go io.Copy(io.Discard, pub) // acks

	in, b, got := bufio.NewReader(sub), record(), record()
	return serial(func() error {
		if _, err := pub.Write(b); err != nil {
			return err
		}
		_, err := io.ReadFull(in, got)
		return err
	})
}

func relayAckSerial(c *child) (figures, error) {
	pub, closePub, err := dialRelay(context.Background(), c.addr, 'P')
	if err != nil {
		return nil, err
	}
	defer closePub()
	b, ack := record(), make([]byte, 8)
	return serial(func() error {
		if _, err := pub.Write(b); err != nil {
			return err
		}
		_, err := io.ReadFull(pub, ack)
		return err
	})
}

// serial times one operation after the other, after a warm-up.
func serial(one func() error) (figures, error) {
	d := make([]time.Duration, 0, latencySamples)
	for i := range latencySamples + latencySamples/10 {
		start := time.Now()
		if err := one(); err != nil {
			return nil, err
		}
		if i >= latencySamples/10 {
			d = append(d, time.Since(start))
		}
	}
	return percentiles(d), nil
}

func relayAckWindow(window int) side {
	return func(c *child) (figures, error) {
		pub, closePub, err := dialRelay(context.Background(), c.addr, 'P')
		if err != nil {
			return nil, err
		}
		defer closePub()
		return work(c, ackedMessages, func() error {
			free, done := make(chan struct{}, window), make(chan error, 1)
			go func() { done <- readAcks(pub, free) }()
			out, b := bufio.NewWriterSize(pub, 16<<10), record()
			for range ackedMessages {
				select {
				case free <- struct{}{}:
				default:
					if err := out.Flush(); err != nil {
						return err
					}
					free <- struct{}{}
				}
				if _, err := out.Write(b); err != nil {
					return err
				}
			}
			if err := out.Flush(); err != nil {
				return err
			}
			return <-done
		})
	}
}

func readAcks(r io.Reader, free chan struct{}) error {
	in, ack := bufio.NewReaderSize(r, 64<<10), make([]byte, 8)
	for range ackedMessages {
		if _, err := io.ReadFull(in, ack); err != nil {
			return err
		}
		<-free
	}
	return nil
}

func relayFanOut(c *child) (figures, error) {
	ctx := context.Background()
	done := make(chan error, readers)
	for range readers {
		sub, closeSub, err := dialRelay(ctx, c.addr, 'S')
		if err != nil {
			return nil, err
		}
		defer closeSub()
		go func() {
			in := bufio.NewReaderSize(sub, 64<<10)
			_, err := io.CopyN(io.Discard, in, fanOutMessages*(2+payloadSize))
			done <- err
		}()
	}
	pub, closePub, err := dialRelay(ctx, c.addr, 'P')
	if err != nil {
		return nil, err
	}
	defer closePub()
	go io.Copy(io.Discard, pub)
	return work(c, fanOutMessages*readers, func() error {
		out, b := bufio.NewWriterSize(pub, 16<<10), record()
		for range fanOutMessages {
			if _, err := out.Write(b); err != nil {
				return err
			}
		}
		if err := out.Flush(); err != nil {
			return err
		}
		return all(done, readers)
	})
}

func all(done chan error, n int) error {
	var first error
	for range n {
		if err := <-done; err != nil && first == nil {
			first = err
		}
	}
	return first
}
