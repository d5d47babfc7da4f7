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

	// Operate makes the handler of the operators' address, and the observer that
	// counts for it. Close it once the registry is closed.
	Operate func(OperateOptions) (Operated, error)
}

// StoreOptions are those of a store.
type StoreOptions struct {
	Logger *slog.Logger
}

// Store is a durable log with the identity that belongs to it.
type Store interface {
	registry.Log
	Key() ed25519.PrivateKey
	SetKey(ed25519.PrivateKey) error
	Successions() []protocol.Succession
}

// Exporter is a store that can be written out, and copied while it is in use.
type Exporter interface {
	Export(io.Writer) error
	Backup(folder string) error
}

// OperateOptions say what the operators' address is about.
type OperateOptions struct {
	Registry *registry.Registry
	Store    string         // what to call the store
	Conn     *client.Client // reads everything
	Token    string
	Backup   func(folder string) error // nil where the store cannot
	Logger   *slog.Logger
}

// Operated serves the operators' address.
type Operated interface {
	http.Handler
	io.Closer
}
