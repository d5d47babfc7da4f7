package jetlog_test

import (
	"context"
	"fmt"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry/jetlog"
)

// Open fails at once where there is no cluster, or where the options are wrong.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err := jetlog.Open(ctx, "nats://127.0.0.1:1", jetlog.Options{Replicas: 2})
	fmt.Println(protocol.CodeOf(err).Name())
	_, err = jetlog.Open(ctx, "nats://127.0.0.1:1", jetlog.Options{Replicas: 3})
	fmt.Println(protocol.CodeOf(err).Name())
	// Output:
	// invalid_argument
	// connection_failed
}
