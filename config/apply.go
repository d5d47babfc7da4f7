package config

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// File is an Applier that keeps a swarm's configuration in a file. It is made by
// OpenFile and belongs to one agent: whoever else opens one of its files gets a
// [LockedError] until Close. Its methods may be called from any goroutine; one is at
// work at a time, and each waits for its turn no longer than its context lasts.
//
// Who opens the target, at any moment, reads one whole document, byte for byte as
// it was published. The version file never names a later version than the target
// has. Both are replaced, never rewritten, and only when what replaces them is on
// disk; so they survive a crash and a power cut. The mode of a file stays, and its
// owner where the system allows it; access lists and other attributes do not.
//
// A file of its own, the state, has the truth: version, digest, content. Target
// and version file are copies, and are put right when they differ from it. One
// difference means something else: if the version file names another version that
// is still retained, and the target has the content of that one (as JSON, numbers
// as float64, since jq may have written it), then somebody has rolled back here, or
// forward. The File takes that version over. After a rollback it is pinned: Apply
// refuses with a [PinnedError] until Pin(ctx, false).
type File struct {
	opts    FileOptions
	content string // the target, behind its symlink
	version string // the version file, likewise; empty for none
	unlock  func()
	fault   func(step string) error // for tests; nil does nothing

	turn chan struct{} // holds one while a call is at work

	// Owned by who has the turn:
	store  *store
	closed bool
}

var (
	_ Applier = (*File)(nil)
	_ Pinner  = (*File)(nil)
)

// PinnedError is an agent that stays at its version. It is protocol.ErrConflict.
type PinnedError struct {
	Version uint64
}

func (e *PinnedError) Error() string {
	return fmt.Sprintf("pinned at version %d", e.Version)
}

// Unwrap gives protocol.ErrConflict.
func (e *PinnedError) Unwrap() error { return protocol.ErrConflict }

// Hint tells a person what to do.
func (e *PinnedError) Hint() string {
	return "the configuration was rolled back here; unpin the agent to follow the swarm again"
}

// ApplyError is a version that was valid and could not be applied. What was in
// use before is again, unless Undo tells what went wrong with that.
type ApplyError struct {
	Version uint64
	Back    uint64 // what is in use now; 0: what there was before the first version
	Err     error
	Undo    error
}

func (e *ApplyError) Error() string {
	s := fmt.Sprintf("apply version %d: %v", e.Version, e.Err)
	if e.Undo != nil {
		s += fmt.Sprintf("; putting version %d back: %v", e.Back, e.Undo)
	}
	return s
}

// Unwrap gives what happened first, and what happened then.
func (e *ApplyError) Unwrap() []error {
	return slices.DeleteFunc([]error{e.Err, e.Undo}, func(err error) bool { return err == nil })
}

var errFileClosed = fmt.Errorf("%w: %w", protocol.Errorf(protocol.ErrClosed, "config file"), net.ErrClosed)

// OpenFile locks the files of an agent, reads its state and removes what a crash
// left behind. Current then finishes what was begun. The errors are a
// *[LockedError], or a *[FileError] which tells what is wrong with which file.
func OpenFile(o FileOptions) (_ *File, err error) {
	if o, err = o.validate(); err != nil {
		return nil, err
	}
	f := &File{opts: o, turn: make(chan struct{}, 1)}
	if f.content, err = followOnce(o.Target); err != nil {
		return nil, err
	}
	if o.VersionFile != NoVersionFile {
		if f.version, err = followOnce(o.VersionFile); err != nil {
			return nil, err
		}
	}
	if err := makeFolder(o.State); err != nil {
		return nil, err
	}
	if path, err := filepath.EvalSymlinks(o.State); err == nil {
		f.opts.State = path
	}
	files := f.files()
	if len(slices.Compact(slices.Sorted(slices.Values(files)))) != len(files) {
		return nil, fileErrorf(protocol.ErrInvalid, o.Target, "give each a path of its own", "target, version file and state are one")
	}
	if f.unlock, err = lockAll(o.Swarm, files...); err != nil {
		return nil, err
	}
	if err := f.open(); err != nil {
		f.unlock()
		return nil, err
	}
	return f, nil
}

// files are the paths that nobody else may write.
func (f *File) files() []string {
	list := []string{f.opts.State, f.content}
	if f.version != "" {
		list = append(list, f.version)
	}
	return list
}

func (f *File) open() (err error) {
	for _, p := range f.files() {
		if err := sweep(p, tempMark); err != nil {
			return err
		}
	}
	if err := sweep(f.opts.State, "."); err != nil { // the mark of earlier builds
		return err
	}
	if _, err := f.read(); err != nil {
		return err
	}
	f.store, err = openStore(f.opts.State, f.opts.Swarm)
	return err
}

// Close gives the files free. It waits for a call at work, which the context of
// that call bounds.
func (f *File) Close() error {
	f.turn <- struct{}{}
	defer f.leave()
	if !f.closed {
		f.closed = true
		f.unlock()
	}
	return nil
}

// enter waits for the turn, and then for the files to be as the state says.
func (f *File) enter(ctx context.Context) error {
	select {
	case f.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	err := f.settle(ctx)
	if err != nil {
		f.leave()
	}
	return err
}

func (f *File) leave() { <-f.turn }

// Current tells what is applied. It first finishes, or takes back, an apply that
// a crash or the end of a context interrupted, and puts target and version file
// right where they differ from the state.
func (f *File) Current(ctx context.Context) (Applied, error) {
	if err := f.enter(ctx); err != nil {
		return Applied{}, err
	}
	defer f.leave()
	a := Applied{Highest: f.store.Highest, Pinned: f.store.Pinned}
	if v := f.store.Current; v != nil {
		a.Version, a.Digest, a.Config, a.At, a.Epoch = v.Version, DigestOf(v.Config), v.Config, v.At, v.Epoch
	}
	return a, nil
}

// Pin says whether Apply refuses. It is remembered.
func (f *File) Pin(ctx context.Context, pinned bool) error {
	if err := f.enter(ctx); err != nil {
		return err
	}
	defer f.leave()
	next := f.store.fileState
	next.Pinned = pinned
	return f.store.set(next)
}

// Apply makes d the configuration in use: it asks the Validator, replaces target
// and version file, runs After, and waits for Health. Where one of the last two
// fails, the version before is put back and After runs for that too; the error is
// an *[ApplyError]. A document that the Validator refuses changes nothing and is
// an *[InvalidError]. The version that is applied already is success, and nothing
// is done.
//
// When ctx ends between the replacing of the files and the end of Health, Apply
// returns its error and things are as after a crash: the next call of Current,
// Apply or Pin, in this process or another, first does it again from there.
func (f *File) Apply(ctx context.Context, d *Document) error {
	if err := f.enter(ctx); err != nil {
		return err
	}
	defer f.leave()
	if f.store.Pinned {
		return &PinnedError{Version: f.store.current()}
	}
	if f.store.Current.same(d) {
		return nil
	}
	if err := f.judge(ctx, d); err != nil {
		return err
	}
	return f.begin(ctx, keep(d, time.Now()))
}

// judge refuses what may not be applied.
func (f *File) judge(ctx context.Context, d *Document) error {
	if err := d.Fault(); err != nil {
		return err
	}
	if d.Version == 0 || d.Digest != DigestOf(d.Config) {
		return protocol.Errorf(protocol.ErrInvalid, "version %d does not have the digest %s", d.Version, d.Digest)
	}
	if f.opts.Validator == nil {
		return nil
	}
	err := Within(f.opts.ValidateTimeout, f.opts.Validator).Validate(ctx, d)
	var invalid *InvalidError
	var schema *SchemaError
	if err == nil || ctx.Err() != nil || errors.As(err, &invalid) || errors.As(err, &schema) {
		return err
	}
	return &InvalidError{Rule: "validator", Err: err}
}

// begin makes sure that the files can be written, notes what will be done, and
// does it. Up to the note an error leaves everything as it was.
func (f *File) begin(ctx context.Context, v *kept) error {
	next := f.store.fileState
	next.Next = v
	p, err := f.note(next)
	defer p.discard()
	if err != nil {
		return &ApplyError{Version: v.Version, Back: f.store.current(), Err: err}
	}
	return f.finish(ctx, p)
}

// note prepares what next says, and saves it. Where no command and no check can
// refuse it the note is for a crash, and need not outlast a power cut: one that
// undoes it undoes the apply, or makes it look like a version that was put here by
// hand.
func (f *File) note(next fileState) (p prepared, err error) {
	if next.Current == nil {
		next.Before = new(copies)
		if *next.Before, err = f.read(); err != nil {
			return p, err
		}
	}
	if p, err = f.prepare(&next); err != nil {
		return p, err
	}
	save, err := f.store.stage(next)
	if err != nil {
		return p, err
	}
	defer save.discard()
	if err = flush(append(p.files(), save)...); err == nil {
		err = f.step("begin")
	}
	if err == nil {
		err = f.store.commit(save, next, f.refusable())
	}
	return p, err
}

// refusable reports whether a version may be found not to do once it is there.
func (f *File) refusable() bool { return f.opts.After != nil || f.opts.Health != nil }

// prepared is all that an apply writes, beside where it is to be: from then on it
// must not fail for want of space.
type prepared struct {
	ready, back pair    // Next, and what was before it, if that may be needed
	settled     *staged // the state once Next is in use
}

func (p *prepared) files() []*staged {
	return []*staged{p.ready[0], p.ready[1], p.back[0], p.back[1], p.settled}
}

func (p *prepared) discard() {
	for _, s := range p.files() {
		s.discard()
	}
}

// prepare stages what s notes. The caller discards it, also after an error.
func (f *File) prepare(s *fileState) (p prepared, err error) {
	if p.ready, err = f.stage(copiesOf(s.Next)); err != nil {
		return p, err
	}
	if f.refusable() {
		old, _ := s.before()
		if p.back, err = f.stage(old); err != nil {
			return p, err
		}
	}
	p.settled, err = f.store.stage(s.settled())
	return p, err
}

// finish does what is noted as Next, or takes it back.
func (f *File) finish(ctx context.Context, p prepared) error {
	v := f.store.Next
	err := f.put(p.ready, v.Version < f.store.current())
	ran := err == nil
	if err == nil {
		err = f.activate(ctx, v.document())
	}
	if err == nil {
		err = f.step("activated")
	}
	if err == nil {
		return f.settled(p.settled)
	}
	if ctx.Err() != nil && ran {
		return fmt.Errorf("apply version %d: %w", v.Version, err)
	}
	p.settled.discard() // the disk may be full
	return &ApplyError{Version: v.Version, Back: f.store.current(), Err: err, Undo: f.undo(ctx, p.back, ran)}
}

// settled saves that Next is in use.
func (f *File) settled(save *staged) error {
	if err := f.store.commit(save, f.store.settled(), true); err != nil {
		return err
	}
	return f.step("settled")
}

// settled is the state once Next is in use.
func (s fileState) settled() fileState {
	s.Previous, s.Current, s.Next, s.Before = s.Current, s.Next, nil, nil
	s.Highest = max(s.Highest, s.Current.Version)
	return s
}

// activate tells the program that the target has changed, and waits until it is
// healthy.
func (f *File) activate(ctx context.Context, d *Document) error {
	if err := f.after(ctx, d); err != nil {
		return err
	}
	if f.opts.Health == nil {
		return nil
	}
	if err := f.step("after"); err != nil {
		return err
	}
	return f.opts.Health.await(ctx, d, f.opts.Swarm, f.content)
}

func (f *File) after(ctx context.Context, d *Document) error {
	if f.opts.After == nil {
		return nil
	}
	if err := f.step("before after"); err != nil {
		return err
	}
	return f.opts.After.in(f.opts.Swarm).run(ctx, d, f.content)
}

// undo puts back what was before Next, and runs After for it if it ran for Next.
func (f *File) undo(ctx context.Context, back pair, ran bool) error {
	next := f.store.fileState
	next.Undo = true
	noted := f.store.set(next) // without it the next process tries Next again, then comes here
	if err := f.step("undo"); err != nil {
		return err
	}
	old, was := next.before()
	if back == (pair{}) {
		var err error
		if back, err = f.stage(old); err != nil {
			return errors.Join(noted, err)
		}
		defer back.discard()
		if err = flush(back[:]...); err != nil {
			return errors.Join(noted, err)
		}
	}
	if err := f.put(back, f.store.current() < next.Next.Version); err != nil {
		return errors.Join(noted, err)
	}
	var err error
	if ran && was != nil {
		if err = f.after(ctx, was); err != nil && ctx.Err() != nil {
			return err
		}
	}
	next.Next, next.Undo, next.Before = nil, false, nil
	return errors.Join(err, f.store.set(next))
}

// before is what the copies were before Next, and as a document; nil for none.
func (s *fileState) before() (copies, *Document) {
	switch {
	case s.Current != nil:
		return copiesOf(s.Current), s.Current.document()
	case s.Before == nil || s.Before.Content == nil:
		return copies{}, nil
	}
	return *s.Before, &Document{Config: s.Before.Content, Digest: DigestOf(s.Before.Content)}
}

func (s *fileState) current() uint64 {
	if s.Current == nil {
		return 0
	}
	return s.Current.Version
}

func copiesOf(v *kept) copies {
	return copies{Content: v.Config, Version: append(strconv.AppendUint(nil, v.Version, 10), '\n')}
}

// pair is target and version file, staged. Nil is a file that is not to be.
type pair [2]*staged

func (p pair) discard() {
	p[0].discard()
	p[1].discard()
}

// stage prepares the files of c; it is both or none.
func (f *File) stage(c copies) (p pair, err error) {
	if c.Content != nil {
		if p[0], err = stage(f.content, c.Content, f.opts.Mode); err != nil {
			return pair{}, err
		}
	}
	if c.Version != nil && f.version != "" {
		if p[1], err = stage(f.version, c.Version, f.opts.Mode); err != nil {
			p.discard()
			return pair{}, err
		}
	}
	return p, nil
}

// put makes the two files those of p: content, then version. On the way down to
// an earlier version it is the other way round, so that in between the version
// file does not claim more than there is.
func (f *File) put(p pair, down bool) error {
	if err := f.step("staged"); err != nil {
		return err
	}
	order := []int{0, 1}
	if down {
		slices.Reverse(order)
	}
	for _, i := range order {
		if err := f.replace(i, p[i]); err != nil {
			return err
		}
	}
	return nil
}

func (f *File) replace(i int, s *staged) error {
	path, step := f.content, "content"
	if i == 1 {
		path, step = f.version, "version"
	}
	if path == "" {
		return nil
	}
	if s == nil {
		if err := removeFile(path); err != nil {
			return err
		}
	} else if err := s.commit(); err != nil {
		return err
	}
	return f.step(step)
}

// read reads the two files.
func (f *File) read() (c copies, err error) {
	if c.Content, err = readFile(f.content); err != nil {
		return c, err
	}
	if f.version != "" {
		c.Version, err = readFile(f.version)
	}
	return c, err
}

func (f *File) step(name string) error {
	if f.fault == nil {
		return nil
	}
	return f.fault(name)
}
