package fakeregistry

import (
	"context"
	"fmt"
	"time"
)

// Script is a list of faults with the times at which they happen, read by
// [ParseFaults].
type Script []Step

// Step is one fault of a Script.
type Step struct {
	// At is when, counted from the start of [RunScript].
	At time.Duration

	// Do is the fault's name: "partition", "restart", …
	Do string

	line  int
	apply func(*Registry) error
}

func (s Step) String() string { return fmt.Sprintf("line %d: %s at %v", s.line, s.Do, s.At) }

// Apply makes the fault happen now.
func (s Step) Apply(r *Registry) error {
	if err := s.apply(r); err != nil {
		return fmt.Errorf("%v: %w", s, err)
	}
	return nil
}

// RunScript applies the steps of a script at their times and returns after the
// last one, at the first error, or when ctx ends, with its error.
func RunScript(ctx context.Context, r *Registry, script Script) error {
	start := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for _, s := range script {
		timer.Reset(time.Until(start.Add(s.At)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := s.Apply(r); err != nil {
			return err
		}
	}
	return nil
}
