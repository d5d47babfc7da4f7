package election_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/election"
	"github.com/pilotgo/pilotgo/fakeregistry"
)

// sweepers is a group whose members may be slow: these examples run in real time,
// on whatever machine.
var sweepers = election.Options{
	Group: "sweepers",
	Timing: election.Timing{
		Heartbeat: 200 * time.Millisecond, Lease: 1500 * time.Millisecond, Silence: 1600 * time.Millisecond,
		Window: 30 * time.Millisecond, Rank: 30 * time.Millisecond, Stop: 500 * time.Millisecond,
		OneWay: 10 * time.Millisecond, Pause: 500 * time.Millisecond,
	},
}

// connect is a node's connection to a registry for examples.
func connect(reg *fakeregistry.Registry, node string) *client.Client {
	e := reg.Endpoint(node)
	c, err := client.Dial(context.Background(), e.Addr, client.Options{Key: e.Key, RegistryKey: e.RegistryKey, NoState: true})
	if err != nil {
		log.Fatal(err)
	}
	return c
}

func start() *fakeregistry.Registry {
	reg, err := fakeregistry.Start(fakeregistry.Options{Born: time.Unix(1764500000, 0)})
	if err != nil {
		log.Fatal(err)
	}
	return reg
}

// Work that one member of a group does at a time. Others take over when this one
// ends, dies or is cut off; the context ends before they do.
func ExampleRun() {
	reg := start()
	defer reg.Close()
	conn := connect(reg, "a")
	defer conn.Close()

	err := election.Run(context.Background(), conn, sweepers,
		func(ctx context.Context, l *election.Leadership) error {
			fmt.Println("sweeping in term", l.Term())
			// What others must not overwrite is published under the fence of the term.
			_, err := l.Publish(ctx, client.Publication{Topic: "floor.state", Payload: []byte("clean")}).Wait(ctx)
			return err // and resign
		})
	fmt.Println(err)
	for _, m := range reg.Messages("floor.*") {
		fmt.Printf("%s, under term %d\n", m.Payload, m.Fences[0].Term)
	}
	// Output:
	// sweeping in term 1764500001
	// <nil>
	// clean, under term 1764500001
}

// A campaign by hand: the holder of the leadership says when its work is over.
func ExampleMember_Campaign() {
	reg := start()
	defer reg.Close()
	conn := connect(reg, "a")
	defer conn.Close()
	ctx := context.Background()

	m, err := election.Join(ctx, conn, sweepers)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	l, err := m.Campaign(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("leads:", l.Valid(), l.Term())
	// … work until l.Done() is closed, or the work is over …
	fmt.Println("resigned:", l.Resign(ctx))
	fmt.Println("leads:", l.Valid(), l.Err())
	// Output:
	// leads: true 1764500001
	// resigned: <nil>
	// leads: false the leadership of term 1764500001 is over: resigned
}

// Who does not campaign can look on.
func ExampleMember_Observe() {
	reg := start()
	defer reg.Close()
	conn, other := connect(reg, "a"), connect(reg, "b")
	defer conn.Close()
	defer other.Close()
	ctx := context.Background()

	m, err := election.Join(ctx, conn, sweepers)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	seen := make(chan struct{})
	go election.Run(ctx, other, sweepers, func(context.Context, *election.Leadership) error {
		<-seen
		return nil // and resign
	})
	for o, err := range m.Observe(ctx) {
		switch {
		case err != nil:
			log.Fatal(err)
		case o.Leader != "":
			fmt.Println(o.Change, o.Leader == fakeregistry.NodeID("b").String(), o.Token.Term)
			close(seen)
		case o.Change == election.ChangeLost:
			fmt.Println(o.Change, o.Reason)
			return
		}
	}
	// Output:
	// leader true 1764500001
	// lost resigned
}

// The priority that the recipe computes in a shell: echo -n ID | cksum.
func ExampleDefaultPriority() {
	fmt.Println(election.DefaultPriority("123456789"))
	// Output:
	// 930766865
}
