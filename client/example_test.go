package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/protocol"
)

// local runs a registry and connects to it.
func local() (c *client.Client, stop func()) {
	reg, err := fakeregistry.Start(fakeregistry.Options{})
	if err != nil {
		log.Fatal(err)
	}
	at := reg.Endpoint("agent-7")
	c, err = client.Dial(context.Background(), at.Addr, client.Options{
		Name: "agent-7", Key: at.Key, NoState: true, RegistryKey: at.RegistryKey,
	})
	if err != nil {
		log.Fatal(err)
	}
	return c, func() {
		c.Close()
		reg.Close()
	}
}

func Example() {
	ctx := context.Background()
	c, stop := local()
	defer stop()

	sub, err := c.Subscribe(ctx, "jobs.*")
	if err != nil {
		log.Fatal(err)
	}
	ack, err := c.PublishTo(ctx, "jobs.created", []byte(`{"id":7}`))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("stored at", ack.Seq)

	for m, err := range client.Messages(ctx, sub) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s %s\n", m.Topic, m.Payload)
		sub.Close()
	}
	// Output:
	// stored at 1
	// jobs.created {"id":7}
}

// The least that an agent needs.
func ExampleDial() {
	_ = func(ctx context.Context, job []byte) error {
		c, err := client.Dial(ctx, "127.0.0.1:9002", client.Options{Name: "agent-7"})
		if err != nil {
			return err
		}
		defer c.Close()

		ack, err := c.Publish(ctx, client.Publication{Topic: "jobs.created", Payload: job}).Wait(ctx)
		// ack.Seq is its place in the log: it is stored, or err says why not.
		if err != nil {
			return err
		}
		fmt.Println("stored at", ack.Seq)

		jobs, err := c.Subscribe(ctx, "jobs.*", client.FromAll())
		if err != nil {
			return err
		}
		for m, err := range client.Messages(ctx, jobs) { // what is kept, then each as it comes
			if err != nil {
				return err
			}
			fmt.Printf("#%d %s: %s\n", m.Seq, m.Topic, m.Payload)
		}
		return nil
	}
}

// Many publishes can be on their way; they are stored in the order of the calls.
func ExampleClient_Publish() {
	ctx := context.Background()
	c, stop := local()
	defer stop()

	var pending []client.Pending
	for i := range 3 {
		pending = append(pending, c.Publish(ctx, client.Publication{
			Topic:   "jobs.created",
			Payload: fmt.Appendf(nil, `{"id":%d}`, i),
		}))
	}
	for _, p := range pending {
		ack, err := p.Wait(ctx)
		switch {
		case errors.Is(err, protocol.ErrUnknownOutcome):
			fmt.Println("it may be there or not: read the topic")
		case err != nil:
			log.Fatal(err)
		default:
			fmt.Println("stored at", ack.Seq)
		}
	}
	// Output:
	// stored at 1
	// stored at 2
	// stored at 3
}

// A status that replaces the one before in its slot, and a reader that wants to
// know where history ends.
func ExampleClient_Subscribe() {
	ctx := context.Background()
	c, stop := local()
	defer stop()

	for _, state := range []string{"starting", "ready"} {
		status := client.Publication{Topic: "status", Payload: []byte(state), Slot: "agent-7"}
		if _, err := c.Publish(ctx, status).Wait(ctx); err != nil {
			log.Fatal(err)
		}
	}
	sub, err := c.Subscribe(ctx, "status", client.FromAll())
	if err != nil {
		log.Fatal(err)
	}
	defer sub.Close()
	for {
		item, err := sub.Next(ctx)
		if err != nil {
			log.Fatal(err)
		}
		switch item.Kind {
		case client.ItemMessage:
			fmt.Printf("%s\n", item.Message.Payload)
		case client.ItemGap:
			fmt.Println("missed", item.From, "to", item.To)
		case client.ItemEpoch, client.ItemDisconnected:
			fmt.Println("what is known may be old")
		case client.ItemCaughtUp:
			fmt.Println("that was all until now")
			return
		}
	}
	// Output:
	// ready
	// that was all until now
}

func ExampleClient_Inbox() {
	ctx := context.Background()
	c, stop := local()
	defer stop()

	if err := c.Join(ctx, "news"); err != nil {
		log.Fatal(err)
	}
	if _, err := c.PublishTo(ctx, "news", []byte("one")); err != nil {
		log.Fatal(err)
	}
	if _, err := c.Send(ctx, c.Self().Node, []byte("a word to myself")); err != nil {
		log.Fatal(err)
	}
	for page, err := range c.Inbox(ctx, client.InboxOptions{}) {
		if err != nil {
			log.Fatal(err)
		}
		for _, m := range page.Messages {
			fmt.Printf("%d %q %s\n", m.Seq, m.Topic, m.Payload)
		}
	}
	// Output:
	// 1 "news" one
	// 2 "" a word to myself
}

// A fenced publish is refused once somebody else has raised the fence.
func ExampleClient_Fence() {
	ctx := context.Background()
	c, stop := local()
	defer stop()

	f, err := c.Fence(ctx, "leader")
	if err != nil {
		log.Fatal(err)
	}
	claim := client.Publication{Topic: "leader", Payload: []byte("me"), Conditions: []protocol.Condition{
		{Topic: "leader", Epoch: f.Epoch.ID, Term: f.K + 1, HasExpect: true, Expect: f.S, Raise: f.K + 1},
	}}
	for range 2 {
		_, err := c.Publish(ctx, claim).Wait(ctx)
		var refused *protocol.Error
		if errors.As(err, &refused) {
			fmt.Println(refused.Code.Name(), "fence is", refused.Fence.K)
			continue
		}
		fmt.Println("claimed")
	}
	// Output:
	// claimed
	// conflict fence is 1
}
