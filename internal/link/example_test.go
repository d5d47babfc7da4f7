package link_test

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/protocol"
)

// A registry that greets, and a node that knows the registry's key.
func Example() {
	ctx := context.Background()
	registry := link.NewIdentity()
	l, err := link.ListenUDP("127.0.0.1:0", link.Config{Identity: registry})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()
	go func() {
		s, err := l.Accept(ctx)
		if err != nil {
			return
		}
		c, err := s.Open(ctx)
		if err != nil {
			return
		}
		hello := []byte("hello, node")
		c.Send(append(binary.BigEndian.AppendUint32(nil, uint32(len(hello))), hello...))
	}()

	s, err := link.Dial(ctx, l.Addr().String(), link.Config{
		Identity: link.NewIdentity(),
		Pinned:   link.Fingerprint(registry.Public()),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close(protocol.ErrClosed, "")
	c, err := s.Accept(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	body, err := c.Next()
	fmt.Printf("%s %v\n", body, err)
	// Output: hello, node <nil>
}
