package disklog

import (
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

var _ registry.SenderLog = (*Log)(nil)

// Retained implements registry.SenderLog. The books know of a message before it
// is on the disk.
func (l *Log) Retained(node protocol.NodeID) (last protocol.Time, waiting bool) {
	l.writing.Lock()
	defer l.writing.Unlock()
	if a := l.books.senders[node]; a != nil {
		last = a.Messages.last().time
	}
	return last, l.books.waiting[node] > 0
}
