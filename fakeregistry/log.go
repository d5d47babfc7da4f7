package fakeregistry

import (
	"sync"
	"sync/atomic"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/memlog"
)

// faultyLog is the real log in memory, with a full disk and a history. It
// outlives the registry that writes it: closing it only makes it read-only until
// the next open.
type faultyLog struct {
	*memlog.Log
	history *history
	full    *atomic.Bool

	mu     sync.RWMutex // a batch is stored or it is not, when close returns
	closed bool
}

func newFaultyLog(l *memlog.Log, h *history, full *atomic.Bool) *faultyLog {
	h.begin(l.Epoch())
	return &faultyLog{Log: l, history: h, full: full, closed: true}
}

func (l *faultyLog) open() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = false
}

func (l *faultyLog) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return nil
}

func (l *faultyLog) Append(b *registry.Batch) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	switch {
	case l.closed:
		return protocol.ErrClosed
	case l.full.Load():
		return protocol.Errorf(protocol.ErrStorageFull, "injected")
	}
	return l.history.store(b.Records, func() error { return l.Log.Append(b) })
}
