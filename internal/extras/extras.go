// Package extras names what pilotgo-registry has linked in and pilotgo has not:
// durable logs, metrics, the operators' page. They would make each call of a script
// start two or three times slower, so pilotgo hands the commands that need them
// over to the other program.
package extras

import (
	"context"
	"crypto/ed25519"
	"io"
	"log/slog"
	"net/http"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// Set is what a program has; nil is what it has not.
type Set struct {
	// OpenStore opens a durable log by the name of its store.
	OpenStore func(ctx context.Context, name string, o StoreOptions) (Store, error)

	// CheckStore reads a folder and tells what it holds, as a JSON object, and what
	// is wrong with it.
	CheckStore func(folder string) (holds any, faults []string, err error)

	// ImportStore makes a folder of what Export wrote.
	ImportStore func(folder string, from io.Reader) error

	// NewOperator makes what serves the operators' address.
	NewOperator func() Operator
}

// StoreOptions are those of a store. All but the first two are for NATS clusters.
type StoreOptions struct {
	Logger    *slog.Logger
	Retention registry.Retention

	Stream        string // the name of the log's stream
	Replicas      int    // 0: three where as many servers are named, else one
	Creds         string // file with user JWT and key
	CA, Cert, Key string // files for TLS
}

// Store is a durable log with the identity that belongs to it.
type Store interface {
	registry.Log
	Key() ed25519.PrivateKey
	SetKey(ed25519.PrivateKey) error
	Successions() []protocol.Succession
	TicketKey() [32]byte // zero: the registry's own
}

// Exporter is a store that can be written out, and copied while it is in use.
type Exporter interface {
	Export(io.Writer) error
	Backup(folder string) error
}

// Mortal is a store that can stop taking anything, for a while or for good,
// while reads of it go on.
type Mortal interface {
	// Ready tells why the store takes nothing now; nil when it does.
	Ready() error

	// Failed is closed when it takes nothing until its process has ended.
	Failed() <-chan struct{}
}

// Operator counts what a registry does and shows it to operators. It is made
// before the registry, which takes its observer, and closed after it.
type Operator interface {
	Observer() *registry.Observer

	// Start begins to look and returns what answers HTTP requests.
	Start(OperatorOptions) (http.Handler, error)

	io.Closer
}

// OperatorOptions say what an Operator is about.
type OperatorOptions struct {
	Registry *registry.Registry
	Log      registry.Log
	Store    string         // what to call the store
	Conn     *client.Client // reads everything
	Token    string
	Logger   *slog.Logger
}
