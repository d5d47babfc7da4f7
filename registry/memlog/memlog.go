// Package memlog is a registry's log in memory. What it holds is gone with the
// process, so a new one is a new epoch.
package memlog

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

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
	head   protocol.Seq
	time   protocol.Time

	all     list[protocol.Seq, *registry.Record]
	names   list[string, *stream] // topics in byte order, also empty ones with a mark
	topics  map[string]*stream    // the same
	direct  map[protocol.NodeID]*stream
	senders map[protocol.NodeID]*account
	largest *ranking // of senders; nil until the log was first full

	bytes     int64        // of payload
	charged   int64        // what counts against Retention.TotalBytes
	filled    int          // topics with messages
	empty     int          // streams without, kept for their mark
	evicted   protocol.Seq // highest mark of a topic
	forgotten protocol.Seq // stands for the marks of streams that are not kept
	aged      protocol.Seq // up to here age has been looked at

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
		topics:  make(map[string]*stream),
		direct:  make(map[protocol.NodeID]*stream),
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
	return l.head, l.time
}

// Append implements registry.Log.
func (l *Log) Append(b *registry.Batch) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return protocol.ErrClosed
	}
	last := l.head
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
	l.expire(l.time)
	return nil
}

// Topic implements registry.Log.
func (l *Log) Topic(topic string) registry.TopicStats {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if s := l.topics[topic]; s != nil {
		return s.stats()
	}
	return registry.TopicStats{Topic: topic}
}

// Topics implements registry.Log.
func (l *Log) Topics(after string, limit int) ([]registry.TopicStats, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return nil, protocol.ErrClosed
	}
	var page []registry.TopicStats
	for p := l.names.behind(after); len(page) < limit || limit <= 0; p = l.names.next(p) {
		x := l.names.at(p)
		if x == nil {
			break
		}
		if x.value.records.n > 0 {
			page = append(page, x.value.stats())
		}
	}
	return page, nil
}

// Stats implements registry.Log.
func (l *Log) Stats() registry.LogStats {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return registry.LogStats{Topics: l.filled, Messages: l.all.n, Bytes: l.bytes, Keys: l.keys.n}
}

// Purge implements registry.Log.
func (l *Log) Purge(topic string, upTo protocol.Seq) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return protocol.ErrClosed
	}
	if s := l.topics[topic]; s != nil {
		for x := s.records.first(); x != nil && x.key <= upTo; x = s.records.first() {
			l.evict(x.value)
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
