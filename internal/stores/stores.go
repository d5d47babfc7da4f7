// Package stores opens the places where a registry can keep its log, by their
// names: a folder, or the addresses of NATS servers.
package stores

import (
	"context"
	"log/slog"
	"strings"

	"github.com/pilotgo/pilotgo/internal/extras"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/disklog"
)

// Options of a store.
type Options struct {
	Retention registry.Retention
	Logger    *slog.Logger
}

// IsFolder reports whether a store of this name is a folder.
func IsFolder(name string) bool { return !strings.Contains(name, "://") }

// Open opens a store.
func Open(_ context.Context, name string, o Options) (extras.Store, error) {
	if !IsFolder(name) {
		return nil, protocol.Errorf(protocol.ErrInvalid, "no store is called %q", name)
	}
	return disklog.Open(name, disklog.Options{Retention: o.Retention, Logger: o.Logger})
}
