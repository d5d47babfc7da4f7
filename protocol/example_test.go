package protocol_test

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/pilotgo/pilotgo/protocol"
)

// A publish on its way: one side appends the frame with its length, the other
// cuts it out of the stream, checks and reads it.
func Example() {
	stream := protocol.AppendFrame(nil, &protocol.Publish{
		N: 1, Key: []byte("order-17"), Topic: "jobs.created", Payload: []byte(`{"job":17}`),
	})

	body, err := protocol.NewReader(bytes.NewReader(stream), protocol.MaxFirstFrame).Next()
	if err != nil {
		panic(err)
	}
	frame, err := protocol.Parse(body)
	if err != nil {
		panic(err)
	}
	p := frame.(*protocol.Publish)
	fmt.Println(frame.Type(), p.Topic, string(p.Payload), p.Check(protocol.Limits{}))
	// Output: Publish jobs.created {"job":17} <nil>
}

func ExampleCode() {
	refuse := &protocol.Refuse{Code: protocol.ErrStaleTerm, Topic: "election:workers", Fence: protocol.Fence{K: 9}}
	err := fmt.Errorf("publish %q: %w", "config:fleet", refuse.Err())
	fmt.Println(err)
	fmt.Println(errors.Is(err, protocol.ErrStaleTerm), protocol.CodeOf(err).Name())
	// Output:
	// publish "config:fleet": stale term: have 9
	// true stale_term
}

func ExampleMatch() {
	fmt.Println(protocol.Match("jobs.*", "jobs.eu.created"), protocol.Match("jobs.*", "jobs"))
	// Output: true false
}

func ExampleNodeID_Address() {
	id, err := protocol.ParseNodeID("2159829326")
	fmt.Println(id.Address(), err)
	// Output: 0:0000.80BC.614E <nil>
}
