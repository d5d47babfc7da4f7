package registry

import (
	"encoding/binary"

	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/protocol"
)

// shareFrom is the size from which a frame is sent as it lies in the log. A copy
// of it for each reader that is slow, of which a client may have a thousand,
// would be more than a registry has.
const shareFrom = 4 << 10

// parts are frames on their way to one reader. What is not shared is in copied.
type parts struct {
	list   []link.Part
	copied []byte
}

func (p *parts) reset() {
	clear(p.list)
	p.list, p.copied = p.list[:0], p.copied[:0]
}

// add appends the frame of a record. The sender's own has the key.
func (p *parts) add(r *Record, own bool) {
	frame := r.Frame()
	switch {
	case len(frame) < shareFrom:
		at := len(p.copied)
		if own {
			p.copied = appendDeliver(p.copied, &protocol.Deliver{Message: r.Message})
		} else {
			p.copied = append(p.copied, frame...)
		}
		p.copy(at)
	case own:
		p.addOwn(r, frame)
	default:
		p.share(frame)
	}
}

// addOwn appends what others get, but for the length and the key, which is the
// element before the marks: of two bytes when it is empty.
func (p *parts) addOwn(r *Record, frame []byte) {
	key := len(frame) - marksSize(r.Fences) - 2
	at := len(p.copied)
	p.copied = binary.BigEndian.AppendUint32(p.copied, uint32(len(frame)-protocol.LengthSize+len(r.Key)))
	p.copy(at)
	p.share(frame[protocol.LengthSize:key])
	at = len(p.copied)
	p.copied = append(append(p.copied, frame[key], byte(len(r.Key))), r.Key...)
	p.copied = append(p.copied, frame[key+2:]...)
	p.copy(at)
}

// marksSize is how long the list of marks is in a frame.
func marksSize(list []protocol.Mark) int {
	const none = 1
	if len(list) == 0 {
		return none
	}
	var with, without protocol.Deliver
	with.Fences = list
	return len(with.Append(nil)) - len(without.Append(nil)) + none
}

// copy notes what stands behind at in copied. What was noted before stays where
// it is when copied grows.
func (p *parts) copy(at int) {
	if n := len(p.list); n > 0 && !p.list[n-1].Shared {
		p.list[n-1].Bytes = p.copied[at-len(p.list[n-1].Bytes):]
		return
	}
	p.list = append(p.list, link.Part{Bytes: p.copied[at:]})
}

func (p *parts) share(b []byte) { p.list = append(p.list, link.Part{Bytes: b, Shared: true}) }
