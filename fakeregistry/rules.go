package fakeregistry

import (
	"slices"
	"sync"
)

// rules are what was asked to happen when something else does, each so many
// times.
type rules[T any] struct {
	mu   sync.Mutex
	list []*rule[T]
}

type rule[T any] struct {
	what        T
	skip, times int // times is below 0 without an end
}

// add makes a rule; times 0 is once.
func (r *rules[T]) add(what T, skip, times int) (stop func()) {
	if times == 0 {
		times = 1
	}
	x := &rule[T]{what, skip, times}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, x)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		x.times = 0
		r.sweep()
	}
}

func (r *rules[T]) sweep() {
	r.list = slices.DeleteFunc(r.list, func(x *rule[T]) bool { return x.times == 0 })
}

// due counts one event for the rules it matches, and returns those whose turn it
// is, oldest first, at most so many. Further ones wait for the next event.
func (r *rules[T]) due(most int, matches func(*T) bool) []T {
	r.mu.Lock()
	defer r.mu.Unlock()
	var due []T
	for _, x := range r.list {
		switch {
		case !matches(&x.what):
		case x.skip > 0:
			x.skip--
		case len(due) < most:
			due = append(due, x.what)
			x.times-- // below 0 it never comes to 0
		}
	}
	if len(due) > 0 {
		r.sweep()
	}
	return due
}

// has tells whether any rule matches, without counting.
func (r *rules[T]) has(matches func(*T) bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.list, func(x *rule[T]) bool { return matches(&x.what) })
}

func (r *rules[T]) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = nil
}
