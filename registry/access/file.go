package access

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// File is a file of rules. Its methods may be called from any goroutine.
type File struct {
	path  string
	rules atomic.Pointer[Rules]

	mu    sync.Mutex
	inUse []byte // the text of the rules in force
}

// Open reads a file of rules.
func Open(path string) (*File, error) {
	f := &File{path: path}
	if _, err := f.Reload(); err != nil {
		return nil, err
	}
	return f, nil
}

// Rules are those in force.
func (f *File) Rules() *Rules { return f.rules.Load() }

// Allow is an AccessFunc that goes by the rules in force.
func (f *File) Allow(ctx context.Context, q registry.Request) error {
	return f.rules.Load().Allow(ctx, q)
}

// Reload reads the file again, and reports whether other rules are in force since.
// On an error those in force stay. The registry is to be told by its Recheck.
func (f *File) Reload() (changed bool, err error) {
	text, err := f.read()
	if err != nil {
		return false, err
	}
	return f.use(text)
}

// use puts a text in force.
func (f *File) use(text []byte) (changed bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rules.Load() != nil && bytes.Equal(text, f.inUse) {
		return false, nil
	}
	rules, err := Parse(f.path, text)
	if err != nil {
		return false, err
	}
	f.rules.Store(rules)
	f.inUse = text
	return true, nil
}

// read reads no more than a file of rules may have.
func (f *File) read() ([]byte, error) {
	file, err := os.Open(f.path)
	if err != nil {
		return nil, fmt.Errorf("access rules: %w", err)
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.IsDir() {
		return nil, protocol.Errorf(protocol.ErrInvalid, "access rules: %s is a folder", f.path)
	}
	text, err := io.ReadAll(io.LimitReader(file, MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("access rules: %w", err)
	}
	return text, nil
}

// Watch looks at the file every so often until ctx ends, and takes over what it
// has become once it was the same twice: what is still being written is half a
// file. told is called after other rules have come into force, with nil, and once
// for each other reason why the file cannot be used, when those in force stay.
func (f *File) Watch(ctx context.Context, every time.Duration, told func(error)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var seen []byte
	trouble := ""
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		text, err := f.read()
		settled := err == nil && bytes.Equal(text, seen)
		seen = text
		changed := false
		if settled {
			changed, err = f.use(text)
		}
		switch {
		case changed:
			trouble = ""
			told(nil)
		case err != nil && err.Error() != trouble:
			trouble = err.Error()
			told(err)
		case err == nil && settled:
			trouble = ""
		}
	}
}

// Faults takes an error of Parse, Open or Reload apart, for one line of a log
// each.
func Faults(err error) []error {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return joined.Unwrap()
	}
	return []error{err}
}
