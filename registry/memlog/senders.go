package memlog

import (
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

var _ registry.SenderLog = (*Log)(nil)

// Retained implements registry.SenderLog.
func (l *Log) Retained(node protocol.NodeID) (last protocol.Time, waiting bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if a := l.senders[node]; a != nil {
		last = a.Messages.Last().At()
	}
	s := l.view.Direct[node]
	return last, s != nil && s.Messages.Len() > 0
}
