package registry_test

import (
	"context"
	"fmt"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/memlog"
)

// A registry inside of a program, and a client of it.
func Example() {
	log := memlog.New(memlog.Options{})
	defer log.Close()
	r, err := registry.New(registry.Options{Log: log, Key: key("registry")})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	addr, err := r.Listen("127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx := context.Background()
	c, err := client.Dial(ctx, addr.String(), client.Options{Key: key("agent"), NoState: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	ack, err := c.Publish(ctx, client.Publication{Topic: "jobs", Payload: []byte("hello")}).Wait(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("seq", ack.Seq, "of", r.Info().Messages)
	// Output: seq 1 of 1
}
