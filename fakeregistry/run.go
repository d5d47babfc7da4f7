package fakeregistry

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/internal/simnet"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// run is one life of the real registry, from a start to a stop.
type run struct {
	*Registry
	server *registry.Registry
	key    link.Identity
	socket net.PacketConn
	served chan struct{} // closed when no new session can come
	dark   atomic.Bool   // crashed: nothing leaves, nothing is stored
	ended  chan struct{} // closed when nothing is left of it
}

var errClosed = errors.New("fake registry is closed")

// Start brings a stopped registry back at the same address, with the same key
// and the log it had. It does nothing while the registry runs.
func (r *Registry) Start() error { return r.start(false) }

// StartEmpty is Start with an empty log of a new epoch: what was acknowledged is
// lost.
func (r *Registry) StartEmpty() error { return r.start(true) }

func (r *Registry) start(empty bool) error {
	for {
		r.mu.Lock()
		h, other := r.up.(*hostile)
		switch {
		case r.closed:
			r.mu.Unlock()
			return errClosed
		case other:
			r.up, r.ending = nil, h.done()
			h.crash()
		case r.up != nil:
			r.mu.Unlock()
			return nil
		}
		ending := r.ending
		if ending == nil {
			defer r.mu.Unlock()
			return r.failed(r.launch(empty))
		}
		r.mu.Unlock()
		<-ending
		r.mu.Lock()
		if r.ending == ending {
			r.ending = nil
		}
		r.mu.Unlock()
	}
}

// launch is called under mu when nothing runs.
func (r *Registry) launch(empty bool) error {
	text := "start"
	if empty {
		text = "start with an empty log"
		r.newLog()
	}
	x := &run{
		Registry: r,
		key:      r.key(),
		served:   make(chan struct{}),
		ended:    make(chan struct{}),
	}
	hooks := x.hooks()
	r.log.open()
	var err error
	x.server, err = registry.New(registry.Options{
		Log:         r.log,
		Key:         x.key.Key,
		Successions: r.chain,
		Access:      x.access,
		Admission:   r.admission(),
		Limits:      r.limits,
		Now:         r.now,
		Software:    "pilotgo fakeregistry",
		Hooks:       &hooks,
	})
	if err != nil {
		return err
	}
	r.events.add(Event{Kind: EventRun, Text: text})
	x.socket = r.wires.listen(place{node: Host})
	go func() {
		defer close(x.served)
		if err := x.server.Serve(x.socket); !errors.Is(err, protocol.ErrClosed) {
			_ = r.failed(err)
		}
	}()
	r.up = x
	return nil
}

// access asks what the test says, and learns names.
func (x *run) access(ctx context.Context, q registry.Request) error {
	if x.own(q.Addr) {
		return nil
	}
	if q.Right == registry.RightAdmit {
		x.people.meet(q.Node, q.Addr, q.Name)
	}
	switch {
	case x.o.Access != nil:
		return x.o.Access(ctx, q)
	case x.o.Admission.Mode != registry.AdmitOpen:
		return registry.AccessByLabel(ctx, q)
	}
	return nil
}

// admission lets in the fake itself, too.
func (r *Registry) admission() registry.Admission {
	a := r.o.Admission
	own := Key(injectorNode).Public().(ed25519.PublicKey)
	a.Operators = append(slices.Clone(a.Operators), protocol.KeyHashOf(own))
	return a
}

// crash makes the registry silent from this moment on and takes it down.
func (x *run) crash() {
	x.dark.Store(true)
	stop := x.wires.net.Drop(func(p simnet.Packet) bool { return p.From == Host && x.dark.Load() })
	go func() {
		defer close(x.ended)
		defer stop()
		_ = x.server.Close()
		_ = x.socket.Close()
		_ = x.log.Close()
		<-x.served
	}()
}

func (x *run) done() <-chan struct{} { return x.ended }

// Crash ends the registry like a power cut: from this moment on nothing leaves
// it and nothing enters its log, and nobody is told. The log stays as it is. It
// does not wait, so it may be called in a failpoint.
func (r *Registry) Crash() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.crash("crash")
}

// crash is called under mu.
func (r *Registry) crash(text string) {
	if r.up == nil {
		return
	}
	r.events.add(Event{Kind: EventRun, Text: text})
	r.up.crash()
	r.up, r.ending = nil, r.up.done()
}

// CrashFor is Crash with a Start after a time, and does not wait either.
func (r *Registry) CrashFor(down time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.crash(fmt.Sprintf("crash for %v", down))
	if r.closed {
		return
	}
	r.work.Go(func() {
		select {
		case <-time.After(down):
			_ = r.Start()
		case <-r.over:
		}
	})
}

// Stop is Crash and waits until nothing of the registry is left.
func (r *Registry) Stop() { r.stop("stop") }

func (r *Registry) stop(text string) {
	r.mu.Lock()
	r.crash(text)
	ending := r.ending
	r.mu.Unlock()
	if ending != nil {
		<-ending
	}
}

// Restart is a Stop and a Start: a crash, and the same log.
func (r *Registry) Restart() error {
	r.Stop()
	return r.Start()
}

// RestartEmpty is a Stop and a StartEmpty: a crash that loses the log.
func (r *Registry) RestartEmpty() error {
	r.Stop()
	return r.StartEmpty()
}

// Running reports whether the registry is up.
func (r *Registry) Running() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.up.(*run)
	return ok
}
