package config

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/pilotgo/pilotgo/protocol"
)

// Decode reads a document into a T, as encoding/json does: names match in any case,
// and what T has no field for is left out. Numbers in an any are json.Number, so
// that none is rounded. The error is ErrInvalid and tells where, not what is there.
func Decode[T any](d *Document) (*T, error) {
	if err := d.Fault(); err != nil {
		return nil, err
	}
	return decodeAs[T](d.Config)
}

func decodeAs[T any](config []byte) (*T, error) {
	v := new(T)
	dec := json.NewDecoder(bytes.NewReader(config))
	dec.UseNumber()
	err := dec.Decode(v)
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong):
		return nil, protocol.Errorf(protocol.ErrInvalid, "%s: a %s is no %s", wrong.Field, wrong.Value, wrong.Type)
	case err != nil:
		return nil, protocol.Errorf(protocol.ErrInvalid, "%v", err)
	}
	return v, nil
}

// LiveOptions of a Live. The zero value works.
type LiveOptions[T any] struct {
	FollowOptions

	// Applier keeps the configuration; a [File], so that it is there before the
	// registry is. Nil keeps it in memory.
	Applier Applier

	// Default is the value until there is another. It is not copied.
	Default *T

	// Validate judges a value before it is used; its error rejects the version.
	Validate func(*T) error

	// OnChange is told of each new value once Load gives it, in order and from one
	// goroutine, which waits for it. old is nil if there was none.
	OnChange func(old, now *T)
}

// Live is a swarm's configuration as a value that is always the newest one that
// was good. Its methods may be called from any goroutine.
type Live[T any] struct {
	now    atomic.Pointer[value[T]]
	ctx    context.Context // of the follower, made here
	cancel context.CancelFunc
	ended  chan struct{} // closed when the follower has ended
	err    error         // set before

	mu      sync.Mutex
	changed chan struct{} // closed at the next change
}

type value[T any] struct {
	v       *T
	version uint64
	digest  Digest
}

// Subscribe follows the swarm and hands out its configuration as a *T. It returns
// once the latest version is in use, or is known to be missing or refused. When
// ctx ends before, it returns all the same if there is a value, of the Applier or
// the Default, and goes on in the background; else the error is that of ctx.
//
// A version that is no T, or that Validate refuses, is rejected and reported: Load
// goes on giving the one before. Close the Live when done.
func Subscribe[T any](ctx context.Context, s *Swarm, o LiveOptions[T]) (*Live[T], error) {
	l := &Live[T]{ended: make(chan struct{}), changed: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	l.now.Store(&value[T]{v: o.Default})
	settled := make(chan struct{})
	o.FollowOptions.settled = sync.OnceFunc(func() { close(settled) })
	o.Validators = append([]Validator{l.validator(&o)}, o.Validators...)
	go func() {
		defer close(l.ended)
		l.err = s.Follow(l.ctx, &liveApplier[T]{l: l, next: o.Applier, change: o.OnChange}, o.FollowOptions)
	}()
	select {
	case <-settled:
		return l, nil
	case <-l.ended:
		return nil, l.err
	case <-ctx.Done():
	}
	if l.Load() != nil {
		return l, nil
	}
	return nil, errors.Join(fmt.Errorf("subscribe to config %q: %w", s.name, ctx.Err()), l.Close())
}

func (l *Live[T]) validator(o *LiveOptions[T]) Validator {
	return ValidatorFunc(func(_ context.Context, d *Document) error {
		v, err := Decode[T](d)
		if err == nil && o.Validate != nil {
			err = o.Validate(v)
		}
		return err
	})
}

// Load is the newest value, nil if there is none. It is shared: who has it must not
// change it.
func (l *Live[T]) Load() *T { return l.now.Load().v }

// Version is that of what Load gives, 0 for the default.
func (l *Live[T]) Version() uint64 { return l.now.Load().version }

// Changed is closed when Load gives another value than at the time of the call.
func (l *Live[T]) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// Done is closed when the following has ended; Err tells why. Load goes on giving
// the last value.
func (l *Live[T]) Done() <-chan struct{} { return l.ended }

// Err is nil until Done is closed.
func (l *Live[T]) Err() error {
	select {
	case <-l.ended:
		return l.err
	default:
		return nil
	}
}

// Close ends the following and waits for that, also for OnChange and for an Apply of
// the Applier, without a bound; see [Swarm.Follow]. It is idempotent. The error is
// nil or a [*StuckError].
func (l *Live[T]) Close() error {
	l.cancel()
	<-l.ended
	if stuck := new(StuckError); errors.As(l.err, &stuck) {
		return stuck
	}
	return nil
}

func (l *Live[T]) set(v *value[T]) (old *T) {
	old = l.now.Swap(v).v
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.changed)
	l.changed = make(chan struct{})
	return old
}

// liveApplier keeps a document where it is to be kept, and then makes it the value.
type liveApplier[T any] struct {
	l      *Live[T]
	next   Applier // nil: nowhere
	change func(old, now *T)
}

// Current takes over what the next applier has.
func (a *liveApplier[T]) Current(ctx context.Context) (Applied, error) {
	if a.next == nil {
		now := a.l.now.Load()
		return Applied{Version: now.version, Digest: now.digest}, nil
	}
	now, err := a.next.Current(ctx)
	if err != nil || now.Config == nil || now.Version == a.l.Version() {
		return now, err
	}
	v, err := decodeAs[T](now.Config)
	if err != nil {
		return Applied{}, fmt.Errorf("applied version %d: %w", now.Version, err)
	}
	a.use(v, now.Version, now.Digest)
	return now, nil
}

func (a *liveApplier[T]) Apply(ctx context.Context, d *Document) error {
	v, err := Decode[T](d)
	if err == nil && a.next != nil {
		err = a.next.Apply(ctx, d)
	}
	if err != nil {
		return err
	}
	a.use(v, d.Version, d.Digest)
	return nil
}

func (a *liveApplier[T]) use(v *T, version uint64, digest Digest) {
	old := a.l.set(&value[T]{v, version, digest})
	if a.change != nil {
		a.change(old, v)
	}
}

// Pin passes it on.
func (a *liveApplier[T]) Pin(ctx context.Context, pinned bool) error {
	if p, ok := a.next.(Pinner); ok {
		return p.Pin(ctx, pinned)
	}
	return nil
}
