package config

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// settle makes the copies those of the state: it takes over what was rolled back
// by hand, ends an interrupted apply, and repairs.
func (f *File) settle(ctx context.Context) error {
	if f.closed {
		return errFileClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	have, err := f.read()
	if err != nil {
		return err
	}
	if err := f.adopt(ctx, have); err != nil {
		return err
	}
	if f.store.Next != nil {
		return f.resume(ctx)
	}
	return f.repair(ctx, have)
}

// resume ends an apply that was interrupted.
func (f *File) resume(ctx context.Context) error {
	v, undo := f.store.Next.Version, f.store.Undo
	f.opts.Logger.Info("config: an apply was interrupted", "version", v, "failed", undo)
	p, err := f.prepare(&f.store.fileState)
	defer p.discard()
	if err == nil {
		err = flush(p.files()...)
	}
	if err != nil {
		return err
	}
	if undo {
		err = f.undo(ctx, p.back, true)
	} else {
		err = f.finish(ctx, p)
	}
	if f.store.Next != nil {
		return err
	}
	if err != nil { // it failed for good, and the version before is in use
		f.opts.Logger.Warn("config: an interrupted apply failed", "version", v, "err", err)
	}
	return nil
}

// repair puts copies right that others changed.
func (f *File) repair(ctx context.Context, have copies) error {
	if f.store.Current == nil {
		return nil // nothing here is ours yet
	}
	want := copiesOf(f.store.Current)
	content := have.Content != nil && bytes.Equal(have.Content, want.Content)
	if content && (f.version == "" || bytes.Equal(bytes.TrimSpace(have.Version), bytes.TrimSpace(want.Version))) {
		return nil
	}
	f.opts.Logger.Warn("config: files differ from what was applied, and are put right",
		"version", f.store.Current.Version, "target", f.content, "content", !content)
	ready, err := f.stage(want)
	if err != nil {
		return err
	}
	defer ready.discard()
	if err := flush(ready[:]...); err != nil {
		return err
	}
	if err := f.put(ready, false); err != nil {
		return err
	}
	if content {
		return nil
	}
	if err := f.after(ctx, f.store.Current.document()); err != nil {
		if ctx.Err() != nil {
			return err
		}
		f.opts.Logger.Warn("config: the command after repair failed", "version", f.store.Current.Version, "err", err)
	}
	return nil
}

// adopt takes over the version that the copies are of, if that is another than
// the state knows of and nobody but a script can have written it.
func (f *File) adopt(ctx context.Context, have copies) error {
	n := version(bytes.TrimSpace(have.Version))
	s := f.store.fileState
	if n == 0 || have.Content == nil || n == s.current() || s.Next != nil && n == s.Next.Version {
		return nil
	}
	d, err := f.retained(ctx, n)
	if err != nil || d == nil || !equalJSON(have.Content, d.Config) {
		return err
	}
	back := n < s.Highest
	f.opts.Logger.Warn("config: another version was put here by hand", "version", n, "instead", s.current(), "pinned", back)
	if s.Current != nil {
		s.Previous = s.Current
	}
	s.Current, s.Next, s.Undo, s.Before = keep(d, time.Now()), nil, false, nil
	s.Highest = max(s.Highest, n)
	s.Pinned = s.Pinned || back
	return f.store.set(s)
}

// retained looks for a version here and with the registry; nil is none.
func (f *File) retained(ctx context.Context, n uint64) (*Document, error) {
	if p := f.store.Previous; p != nil && p.Version == n {
		return p.document(), nil
	}
	if f.opts.Retained == nil {
		return nil, nil
	}
	d, err := f.opts.Retained(ctx, n)
	if errors.Is(err, protocol.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if d == nil || d.Version != n || d.Fault() != nil {
		return nil, nil
	}
	return d, nil
}

// equalJSON tells whether two texts are the same to jq, to which each number is
// a float64.
func equalJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
