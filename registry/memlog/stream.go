package memlog

import (
	"iter"

	"github.com/pilotgo/pilotgo/internal/retained"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

type (
	stream  = retained.Stream[message, holdings]
	records = retained.List[protocol.Seq, message]
	account = retained.Account[records]
	ranking = retained.Ranking[records]
)

// message is a record with its seq at hand.
type message struct {
	seq    protocol.Seq
	record *registry.Record
}

func (m message) Key() protocol.Seq { return m.seq }
func (m message) At() protocol.Time { return m.record.Time }
func (m message) Size() int         { return len(m.record.Payload) }

func (m message) Place() (topic string, to protocol.NodeID) { return m.record.Topic, m.record.To }

// holdings is who has what in a stream.
type holdings struct {
	shares  map[protocol.NodeID]*share
	largest *ranking // of shares; nil until the stream was first full
}

// share is one sender's part of a stream.
type share struct {
	account
	slots map[string]*registry.Record
}

func (h *holdings) accounts() iter.Seq[*account] {
	return func(yield func(*account) bool) {
		for _, sh := range h.shares {
			if !yield(&sh.account) {
				return
			}
		}
	}
}
