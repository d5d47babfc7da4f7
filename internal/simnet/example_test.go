package simnet_test

import (
	"fmt"
	"time"

	"github.com/pilotgo/pilotgo/internal/simnet"
)

func Example() {
	n := simnet.New(simnet.Options{Latency: time.Millisecond, Seed: 1})
	defer n.Close()
	registry, agent := n.Listen("registry"), n.Listen("agent")

	n.PartitionOneWay("registry", "agent")
	_, _ = registry.WriteTo([]byte("welcome"), agent.LocalAddr())
	_, _ = agent.WriteTo([]byte("hello"), registry.LocalAddr())

	b := make([]byte, 100)
	k, _, err := registry.ReadFrom(b)
	fmt.Printf("%s %v\n", b[:k], err)
	fmt.Println("lost on the way back:", n.Stats("registry", "agent").Lost)
	// Output:
	// hello <nil>
	// lost on the way back: 1
}
