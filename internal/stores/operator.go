package stores

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/pilotgo/pilotgo/internal/admin"
	"github.com/pilotgo/pilotgo/internal/extras"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// operator puts metrics and page together.
type operator struct {
	metrics *admin.Metrics
	about   atomic.Pointer[extras.OperatorOptions] // nil before Start

	watcher *admin.Watcher
	server  *admin.Server
}

func newOperator() *operator {
	o := &operator{}
	o.metrics = admin.NewMetrics(admin.Source{
		Info:    since(o, func(is *extras.OperatorOptions) protocol.InfoState { return is.Registry.Info() }),
		Stats:   since(o, func(is *extras.OperatorOptions) registry.LogStats { return is.Log.Stats() }),
		Usage:   since(o, func(is *extras.OperatorOptions) registry.Usage { return is.Registry.Usage() }),
		Stalled: since(o, func(is *extras.OperatorOptions) time.Duration { return is.Registry.Stalled() }),
	})
	return o
}

// since reads what there is from Start on, and nothing before.
func since[T any](o *operator, read func(*extras.OperatorOptions) T) func() T {
	return func() (is T) {
		if about := o.about.Load(); about != nil {
			is = read(about)
		}
		return is
	}
}

func (o *operator) Observer() *registry.Observer { return o.metrics.Observer() }

func (o *operator) Start(about extras.OperatorOptions) (http.Handler, error) {
	o.about.Store(&about)
	o.watcher = admin.Watch(admin.WatchOptions{Conn: about.Conn, Store: about.Store, Rates: o.metrics.Rates, Logger: about.Logger})
	var backup func(string) error
	if e, ok := about.Log.(extras.Exporter); ok {
		backup = e.Backup
	}
	var err error
	o.server, err = admin.New(admin.Options{
		Snapshot: o.watcher.Snapshot, Metrics: o.metrics.Handler(), Token: about.Token, Backup: backup,
		Ready: func(ctx context.Context) error { return ready(ctx, &about) },
	})
	return o.server, err
}

// patience is how long the log may be at one step before the registry is said not
// to be ready.
const patience = 3 * time.Second

// ready asks over the network, as a client would, and then the log.
func ready(ctx context.Context, about *extras.OperatorOptions) error {
	if _, err := about.Conn.Info(ctx); err != nil {
		return err
	}
	if stalled := about.Registry.Stalled(); stalled > patience {
		return fmt.Errorf("the log does not answer for %v", stalled.Round(time.Second))
	}
	if m, ok := about.Log.(extras.Mortal); ok {
		return m.Ready()
	}
	return nil
}

func (o *operator) Close() error {
	if o.server != nil {
		o.server.Close()
	}
	if o.watcher != nil {
		o.watcher.Close()
	}
	return nil
}
