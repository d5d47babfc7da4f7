package config

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// InvalidError is a document that was refused: where in it, and by which rule.
// It is protocol.ErrInvalid.
type InvalidError struct {
	Path   string // a JSON Pointer into the document; empty is all of it
	Rule   string // what refused it, such as "required" or "minimum"
	Detail string // what that rule says; may be empty
	Err    error  // what the validator said, if it says more
}

func (e *InvalidError) Error() string {
	s := e.Path
	if s == "" {
		s = "document"
	}
	s += ": " + e.Rule
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap gives protocol.ErrInvalid and Err.
func (e *InvalidError) Unwrap() []error {
	if e.Err == nil {
		return []error{protocol.ErrInvalid}
	}
	return []error{protocol.ErrInvalid, e.Err}
}

// Hint tells a person what to do.
func (e *InvalidError) Hint() string {
	return "correct the document, or the rule, and publish again"
}

// All is a Validator that asks each in turn, and stops at the first that refuses.
// A nil one is left out.
func All(list ...Validator) Validator {
	return ValidatorFunc(func(ctx context.Context, d *Document) error {
		if err := judgeAll(ctx, d, list); err != nil {
			return err
		}
		return ctx.Err()
	})
}

// judgeAll asks one after the other. It has the answer when ctx ends at the latest:
// a validator that does not look at it goes on alone. A panic refuses.
func judgeAll(ctx context.Context, d *Document, list []Validator) error {
	for _, v := range list {
		if v == nil {
			continue
		}
		err := bounded(ctx, func() error { return v.Validate(ctx, d) })
		switch panicked := new(panicError); {
		case err == nil:
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &panicked):
			return &InvalidError{Rule: "panic", Err: err}
		default:
			return err
		}
	}
	return nil
}

// panicError is a panic of code that was lent to us.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// safely makes an error of a panic of f.
func safely(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{p, debug.Stack()}
		}
	}()
	return f()
}

// bounded calls f and gives up on it when ctx ends: then f goes on alone.
func bounded(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- safely(f) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Within is v with at most d for each document. When d is over, or the context,
// the answer is given at once, also if v does not look at its context: v then goes
// on alone, and what it says is dropped.
func Within(d time.Duration, v Validator) Validator {
	return ValidatorFunc(func(ctx context.Context, doc *Document) error {
		within, cancel := context.WithTimeoutCause(ctx, d, protocol.Errorf(protocol.ErrTimeout, "no answer within %v", d))
		defer cancel()
		err := bounded(within, func() error { return v.Validate(within, doc) })
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case within.Err() != nil:
			return &InvalidError{Rule: "time-out", Err: context.Cause(within)}
		}
		return err
	})
}

// RequirePaths is a Validator that wants each JSON Pointer to lead to a value; null
// is one. A pointer is "" for the whole document, or "/a/b/0", with "~1" for a
// slash and "~0" for a tilde in a name. The error is ErrInvalid for what is no
// pointer.
func RequirePaths(pointers ...string) (Validator, error) {
	paths := make([][]string, len(pointers))
	for i, p := range pointers {
		var err error
		if paths[i], err = splitPointer(p); err != nil {
			return nil, err
		}
	}
	return ValidatorFunc(func(_ context.Context, d *Document) error {
		v, err := decode(d.Config)
		if err != nil {
			return err
		}
		for i, path := range paths {
			if err := requirePath(v, path); err != nil {
				return &InvalidError{Path: pointers[i], Rule: "required", Detail: err.Error()}
			}
		}
		return nil
	}), nil
}

// requirePath says how far v goes along the path.
func requirePath(v any, path []string) error {
	for i, name := range path {
		next, ok := step(v, name)
		if !ok && i == 0 {
			return errors.New("nothing there")
		}
		if !ok {
			return fmt.Errorf("nothing there; %s is the last that is", joinPointer(path[:i]))
		}
		v = next
	}
	return nil
}

// step takes one step of a pointer.
func step(v any, name string) (any, bool) {
	switch v := v.(type) {
	case map[string]any:
		next, ok := v[name]
		return next, ok
	case []any:
		i, err := strconv.ParseUint(name, 10, 31)
		if err != nil || i >= uint64(len(v)) || strconv.FormatUint(i, 10) != name {
			return nil, false
		}
		return v[i], true
	}
	return nil, false
}

var (
	unescape = strings.NewReplacer("~1", "/", "~0", "~")
	escape   = strings.NewReplacer("~", "~0", "/", "~1")
)

// splitPointer takes a JSON Pointer (RFC 6901) apart.
func splitPointer(p string) ([]string, error) {
	if p == "" {
		return nil, nil
	}
	names := strings.Split(p, "/")
	if names[0] != "" {
		return nil, protocol.Errorf(protocol.ErrInvalid, "%q is no JSON Pointer: it does not begin with a slash", p)
	}
	for i, n := range names {
		bare := strings.ReplaceAll(strings.ReplaceAll(n, "~0", ""), "~1", "")
		if strings.Contains(bare, "~") {
			return nil, protocol.Errorf(protocol.ErrInvalid, "%q is no JSON Pointer: a tilde is ~0 in it", p)
		}
		names[i] = unescape.Replace(n)
	}
	return names[1:], nil
}

func joinPointer(names []string) string {
	var b strings.Builder
	for _, n := range names {
		b.WriteString(pointer(n))
	}
	return b.String()
}

// decode reads a document for validators. Integers that a uint64 or int64 holds
// stay exact; other numbers become float64, as they are to most readers.
func decode(b []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, &InvalidError{Rule: "JSON", Err: err}
	}
	if dec.More() {
		return nil, &InvalidError{Rule: "JSON", Detail: "more than one value"}
	}
	v, err := plainNumbers(v)
	if err != nil {
		return nil, &InvalidError{Rule: "JSON", Err: err}
	}
	return v, nil
}

// plainNumbers replaces each json.Number inside v.
func plainNumbers(v any) (_ any, err error) {
	switch v := v.(type) {
	case json.Number:
		return plainNumber(v.String())
	case []any:
		for i := range v {
			if v[i], err = plainNumbers(v[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for k := range v {
			if v[k], err = plainNumbers(v[k]); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

func plainNumber(s string) (any, error) {
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return i, nil
	}
	if u, err := strconv.ParseUint(s, 10, 64); err == nil {
		return u, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return nil, fmt.Errorf("number %s is out of range", s)
	}
	return f, nil
}
