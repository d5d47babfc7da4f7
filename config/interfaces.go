package config

import (
	"context"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/protocol"
)

// Validator judges a document. The text of its error becomes the reason that
// others read, so it says what is wrong and nothing secret. One that does not
// return when its context ends is left alone, and its answer is dropped. A panic
// refuses the document, with what it says as the reason.
type Validator interface {
	Validate(ctx context.Context, d *Document) error
}

// ValidatorFunc is a function as a Validator.
type ValidatorFunc func(ctx context.Context, d *Document) error

// Validate calls f.
func (f ValidatorFunc) Validate(ctx context.Context, d *Document) error { return f(ctx, d) }

// Applier makes a document the one in use. Its methods are called from one
// goroutine at a time.
type Applier interface {
	// Current tells what is applied now; zero is nothing.
	Current(ctx context.Context) (Applied, error)

	// Apply returns once d is in use and would be after a crash, or with an error
	// when nothing has changed: what was in use before is again. It may keep d. A
	// panic is taken for an error, and Current is asked what that has left.
	Apply(ctx context.Context, d *Document) error
}

// Pinner is an Applier that can remember a pin: a pinned agent stays at what it
// has, whatever is published, until it is unpinned.
type Pinner interface {
	Pin(ctx context.Context, pinned bool) error
}

// Applied is what an Applier has in use.
type Applied struct {
	Version uint64 // 0: nothing is applied
	Digest  Digest
	Config  []byte // the document's bytes, as they were published; may be nil where they are not kept
	At      time.Time
	Pinned  bool // a local rollback was found: stay at Version

	// Highest is the highest version that was ever applied here; above Version
	// after a local rollback. 0 where it is not known.
	Highest uint64

	// Epoch is that of the log which Version came from; 0 where it is not known.
	Epoch protocol.EpochID
}

// Leadership lends config the fence of an elected leader. Publish adds the
// fence's condition to p and refuses at once when the leadership is over; Done is
// closed when it ends. A leadership of package election is one.
type Leadership interface {
	Publish(ctx context.Context, p client.Publication) client.Pending
	Done() <-chan struct{}
}
