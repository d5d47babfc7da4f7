package registry

import "time"

// Observer is told what a registry does, for metrics. Its functions are called by
// many goroutines in the middle of the work, so they must be quick, and they must
// not call the registry. A nil one costs nothing.
type Observer struct {
	// Event is told of sessions and subscriptions that begin and end, and of what
	// was refused. Accepted publishes and delivered messages are told in numbers.
	Event func(Event)

	// Published: as many publishes of one client were accepted and the answers
	// handed to its connection, so long after the first of them was read.
	Published func(n int, took time.Duration)

	// Answered: another request was granted.
	Answered func(op Op, took time.Duration)

	// Stored: a batch was stored. The slice is the registry's.
	Stored func(records []*Record, took time.Duration)

	// Delivered: messages were handed to the connection of a subscription, which
	// is behind the head of the log by lag seqs then.
	Delivered func(messages, bytes int, lag uint64)
}

func (o *Observer) event(e Event) {
	if o.Event != nil {
		o.Event(e)
	}
}

func (o *Observer) published(n int, began time.Time) {
	if o.Published != nil && n > 0 {
		o.Published(n, time.Since(began))
	}
}

func (o *Observer) answered(op Op, began time.Time) {
	if o.Answered != nil {
		o.Answered(op, time.Since(began))
	}
}

func (o *Observer) stored(records []*Record, began time.Time) {
	if o.Stored != nil {
		o.Stored(records, time.Since(began))
	}
}

func (o *Observer) delivered(records []*Record, lag uint64) {
	if o.Delivered == nil || len(records) == 0 {
		return
	}
	bytes := 0
	for _, r := range records {
		bytes += len(r.Payload)
	}
	o.Delivered(len(records), bytes, lag)
}
