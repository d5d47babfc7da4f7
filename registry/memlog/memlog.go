// Package memlog is a registry's log in memory. What it holds is gone with the
// process, so a new one is a new epoch.
package memlog

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/pilotgo/pilotgo/internal/retained"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// Options of a log. The zero value is a log of its own new epoch with the
// default retention.
type Options struct {
	Epoch     protocol.Epoch // made up when its ID is 0
	Retention registry.Retention
}

// Log is a registry.Log in memory.
type Log struct {
	epoch protocol.Epoch

	mu     sync.RWMutex
	closed bool
	keep   registry.Retention
	view   retained.View[message, holdings]

	senders map[protocol.NodeID]*account
	largest *ranking     // of senders; nil until the log was first full
	charged int64        // what counts against Retention.TotalBytes
	empty   int          // streams without messages, kept for their mark
	aged    protocol.Seq // up to here age has been looked at

	table
}

var _ registry.Log = (*Log)(nil)

// New makes an empty log.
func New(opts Options) *Log {
	if opts.Epoch.ID == 0 {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		opts.Epoch = protocol.Epoch{ID: protocol.EpochID(binary.BigEndian.Uint64(b[:]) | 1), Born: uint64(time.Now().Unix())}
	}
	return &Log{
		epoch:   opts.Epoch,
		keep:    opts.Retention.WithDefaults(),
		view:    retained.NewView[message, holdings](),
		senders: make(map[protocol.NodeID]*account),
		table:   newTable(),
	}
}

// Epoch implements registry.Log.
func (l *Log) Epoch() protocol.Epoch { return l.epoch }

// Head implements registry.Log.
func (l *Log) Head() (protocol.Seq, protocol.Time) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.view.Head, l.view.Time
}

// Append implements registry.Log.
func (l *Log) Append(b *registry.Batch) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return protocol.ErrClosed
	}
	last := l.view.Head
	for _, r := range b.Records {
		if r.Seq <= last {
			return fmt.Errorf("append seq %d behind %d", r.Seq, last)
		}
		last = r.Seq
	}
	for _, r := range b.Records {
		l.add(r)
	}
	l.store(b)
	l.expire(l.view.Time)
	return nil
}

// Topic implements registry.Log.
func (l *Log) Topic(topic string) registry.TopicStats {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.view.TopicStats(topic)
}

// Topics implements registry.Log.
func (l *Log) Topics(after string, limit int) ([]registry.TopicStats, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return nil, protocol.ErrClosed
	}
	return l.view.TopicsPage(after, limit), nil
}

// Stats implements registry.Log.
func (l *Log) Stats() registry.LogStats {
	l.mu.RLock()
	defer l.mu.RUnlock()
	s := l.view.Stats()
	s.Keys = l.keys.Len()
	return s
}

// Purge implements registry.Log.
func (l *Log) Purge(topic string, upTo protocol.Seq) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return protocol.ErrClosed
	}
	if s := l.view.Topics[topic]; s != nil {
		for s.Messages.Len() > 0 && s.Messages.First().seq <= upTo {
			l.evict(s.Messages.First().record)
		}
	}
	return nil
}

// Expire implements registry.Log.
func (l *Log) Expire(now protocol.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return protocol.ErrClosed
	}
	l.expire(now)
	return nil
}

// Retain changes what is kept, at once and from now on.
func (l *Log) Retain(r registry.Retention) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keep = r.WithDefaults()
	l.trim()
}

// Close implements registry.Log.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return nil
}
