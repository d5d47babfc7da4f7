// Package retained is what a log that keeps its messages itself holds of them in
// memory: the streams, their marks, which messages make a page, and who has most.
// The logs of packages memlog and disklog differ in what they keep of a message
// and in when they take it away, not in this.
//
// Nothing here locks. Who reads a [View] holds a lock of its log that keeps
// writers out.
package retained

import (
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// Message is what a log holds of a retained message.
type Message interface {
	Key() protocol.Seq
	At() protocol.Time
	Size() int // of the payload

	// Place is the topic, or the node of a direct message.
	Place() (topic string, to protocol.NodeID)
}

// Charge is what a record counts against Retention.TotalBytes. Long names are
// beyond the overhead: each is there twice, in the frame and beside it.
func Charge(r *registry.Record) int64 {
	names := len(r.Topic)
	for i := range r.Fences {
		names += len(r.Fences[i].Topic)
	}
	return int64(len(r.Payload) + max(registry.RecordOverhead, registry.RecordOverhead/2+2*names))
}
