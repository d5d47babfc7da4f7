package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"net"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/memlog"
)

const topic = "bench"

// historyVersions is how many versions of a configuration are kept.
const historyVersions = 100_000

func serveRegistry() error {
	// The fan-out row sends a burst of ten times what one topic and sender keep by
	// default; readers that are behind for a moment must not meet a gap.
	return serve(memlog.New(memlog.Options{
		Retention: registry.Retention{Messages: 2 * fanOutMessages, Versions: historyVersions},
	}))
}

func serve(log registry.Log) error {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	r, err := registry.New(registry.Options{Log: log, Key: key})
	if err != nil {
		return err
	}
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return err
	}
	restOnSignal()
	fmt.Println("READY", socket.LocalAddr())
	return r.Serve(socket)
}

func dialRegistry(ctx context.Context, addr string) (*client.Client, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	return client.Dial(ctx, addr, client.Options{Key: key, NoState: true, Window: 4096})
}

func publication() client.Publication {
	return client.Publication{Topic: topic, Payload: make([]byte, payloadSize)}
}

func registryPush(c *child) (figures, error) {
	ctx := context.Background()
	reader, err := dialRegistry(ctx, c.addr)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	sub, err := reader.Subscribe(ctx, topic)
	if err != nil {
		return nil, err
	}
	writer, err := dialRegistry(ctx, c.addr)
	if err != nil {
		return nil, err
	}
	defer writer.Close()
	p := publication()
	return serial(func() error {
		writer.Publish(ctx, p)
		return nextMessages(ctx, sub, 1)
	})
}

func nextMessages(ctx context.Context, s client.Stream, n int) error {
	for n > 0 {
		item, err := s.Next(ctx)
		if err != nil {
			return err
		}
		if item.Kind == client.ItemGap {
			return fmt.Errorf("gap %d…%d", item.From, item.To)
		}
		if item.Kind == client.ItemMessage {
			n--
		}
	}
	return nil
}

func registryAckSerial(c *child) (figures, error) {
	ctx := context.Background()
	writer, err := dialRegistry(ctx, c.addr)
	if err != nil {
		return nil, err
	}
	defer writer.Close()
	p := publication()
	return serial(func() error {
		_, err := writer.Publish(ctx, p).Wait(ctx)
		return err
	})
}

func registryAckWindow(window int) side {
	return func(c *child) (figures, error) {
		ctx := context.Background()
		writer, err := dialRegistry(ctx, c.addr)
		if err != nil {
			return nil, err
		}
		defer writer.Close()
		p := publication()
		return work(c, ackedMessages, func() error {
			flying := make([]client.Pending, window)
			for i := range ackedMessages {
				if old := flying[i%window]; old != nil {
					if _, err := old.Wait(ctx); err != nil {
						return err
					}
				}
				flying[i%window] = writer.Publish(ctx, p)
			}
			for _, old := range flying {
				if _, err := old.Wait(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

func registryFanOut(c *child) (figures, error) {
	ctx := context.Background()
	done := make(chan error, readers)
	for range readers {
		reader, err := dialRegistry(ctx, c.addr)
		if err != nil {
			return nil, err
		}
		defer reader.Close()
		sub, err := reader.Subscribe(ctx, topic)
		if err != nil {
			return nil, err
		}
		go func() { done <- untilLast(ctx, sub) }()
	}
	writer, err := dialRegistry(ctx, c.addr)
	if err != nil {
		return nil, err
	}
	defer writer.Close()
	p := publication()
	return work(c, fanOutMessages*readers, func() error {
		for range fanOutMessages {
			writer.Publish(ctx, p)
		}
		return all(done, readers)
	})
}

// untilLast reads until the last message; every one must come.
func untilLast(ctx context.Context, s client.Stream) error {
	var last protocol.Seq
	for n := 0; n < fanOutMessages; {
		item, err := s.Next(ctx)
		if err != nil {
			return err
		}
		if item.Kind == client.ItemGap {
			return fmt.Errorf("gap %d…%d", item.From, item.To)
		}
		if item.Kind != client.ItemMessage {
			continue
		}
		if item.Message.Seq <= last {
			return fmt.Errorf("seq %d after %d", item.Message.Seq, last)
		}
		last = item.Message.Seq
		n++
	}
	return nil
}
