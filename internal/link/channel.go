package link

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/quic-go/quic-go"
)

// stream is what a carrier gives for a channel.
type stream interface {
	io.ReadWriter
	Close() error
	CancelRead(quic.StreamErrorCode)
	CancelWrite(quic.StreamErrorCode)
	SetReadDeadline(time.Time) error
	SetPriority(urgency int8, incremental bool)
	Context() context.Context // ends with the sending direction
}

// Channel carries frames both ways, in order. One goroutine at a time may call
// Next; everything else may be called from any goroutine.
//
// A channel is given back to the peer's limit when both directions have ended:
// its own by CloseSend or Reset, the other's by Next returning an error, or Reset.
type Channel struct {
	str   stream
	in    *protocol.Reader
	start func(write func()) bool // runs write in a goroutine
	done  func()                  // tells that this goroutine has ended
	limit int
	write func() // writeQueued, made once: a method value would allocate at each start

	room   chan struct{} // a token when the queue may have room
	failed chan struct{} // closed with err set

	mu      sync.Mutex
	queue   []piece // not yet taken by the writer
	spare   []piece // the memory of the queue before, empty
	size    int     // bytes in queue
	writing bool    // a writer goroutine runs
	ending  bool    // CloseSend was called
	err     error   // why nothing can be sent any more
	queued  uint64  // bytes ever queued and
	written uint64  // ever handed to the carrier
	flushes []flush
}

// flush is a Flush that waits.
type flush struct {
	until uint64
	done  chan struct{}
}

// Part is some of the bytes to send. What is Shared is not copied: it must never
// change.
type Part struct {
	Bytes  []byte
	Shared bool
}

// piece is a part in the queue: either a copy or what somebody shares.
type piece struct {
	copied *buffer
	shared []byte
}

func (p piece) bytes() []byte {
	if p.copied != nil {
		return p.copied.b
	}
	return p.shared
}

// free gives the memory of pieces back and returns that of the list.
func free(pieces []piece) []piece {
	for _, p := range pieces {
		if p.copied != nil {
			p.copied.free()
		}
	}
	clear(pieces)
	return pieces[:0]
}

// buffer is queued bytes. Idle channels hold none.
type buffer struct{ b []byte }

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// keepBuffer is the largest buffer that is worth keeping.
const keepBuffer = 512 << 10

func (b *buffer) free() {
	if cap(b.b) > keepBuffer {
		return
	}
	b.b = b.b[:0]
	buffers.Put(b)
}

func newChannel(s *Session, str stream) *Channel {
	return makeChannel(str, s.limits, s.startWriter, s.writers.Done)
}

func makeChannel(str stream, l Limits, start func(func()) bool, done func()) *Channel {
	c := &Channel{
		str:    str,
		in:     protocol.NewReader(str, l.Frame),
		start:  start,
		done:   done,
		limit:  l.Queue,
		room:   make(chan struct{}, 1),
		failed: make(chan struct{}),
	}
	c.write = c.writeQueued
	return c
}

// Next waits for the next frame and returns its body, valid until the following
// call. A clean end by the peer is io.EOF; a reset has the peer's code; a frame
// above the maximum is ErrTooLarge, a malformed or truncated one ErrMalformed,
// and the peer is told to stop sending. After a deadline Next goes on where it
// was; all other errors are final.
func (c *Channel) Next() ([]byte, error) {
	body, err := c.in.Next()
	if err == nil {
		return body, nil
	}
	err = channelError(err)
	if code := protocol.CodeOf(err); code == protocol.ErrMalformed || code == protocol.ErrTooLarge {
		c.str.CancelRead(quic.StreamErrorCode(code))
	}
	return nil, err
}

// Buffered reports whether Next has a frame at hand without waiting.
func (c *Channel) Buffered() bool { return c.in.Buffered() }

// SetMaxFrame changes the largest frame that Next takes, from the next one on.
// It must not be called during Next.
func (c *Channel) SetMaxFrame(n int) { c.in.SetMax(n) }

// SetReadDeadline makes Next fail with ErrTimeout from t on; zero is never.
func (c *Channel) SetReadDeadline(t time.Time) error { return c.str.SetReadDeadline(t) }

// SetUrgent lets what is sent here leave before what other channels have queued.
func (c *Channel) SetUrgent() { c.str.SetPriority(0, true) }

// Send is SendContext without an end.
func (c *Channel) Send(frames []byte) error { return c.SendContext(context.Background(), frames) }

// SendContext queues whole frames, each with its length before it, and copies
// them. It waits while as many bytes as the limit are queued; the frames of one
// call go in together, however large. A nil error says that they are queued, no
// more. After an error nothing of them is sent.
func (c *Channel) SendContext(ctx context.Context, frames []byte) error {
	parts := [1]Part{{Bytes: frames}}
	return c.SendParts(ctx, parts[:])
}

// SendParts is SendContext for frames that lie in parts.
func (c *Channel) SendParts(ctx context.Context, parts []Part) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.full() {
		if err := c.waitRoom(ctx); err != nil {
			return err
		}
	}
	if err := c.sendError(); err != nil {
		return err
	}
	for _, p := range parts {
		c.add(p)
	}
	return c.startWriting()
}

// add queues, under mu, one part.
func (c *Channel) add(p Part) {
	c.size += len(p.Bytes)
	c.queued += uint64(len(p.Bytes))
	if p.Shared {
		c.queue = append(c.queue, piece{shared: p.Bytes})
		return
	}
	last := len(c.queue) - 1
	if last < 0 || c.queue[last].copied == nil {
		c.queue = append(c.queue, piece{copied: buffers.Get().(*buffer)})
		last++
	}
	copied := c.queue[last].copied
	copied.b = append(copied.b, p.Bytes...)
}

// waitRoom waits, giving up mu meanwhile, until the queue has room or nothing
// can be sent any more.
func (c *Channel) waitRoom(ctx context.Context) error {
	for c.full() {
		c.mu.Unlock()
		var err error
		select {
		case <-c.room:
		case <-c.failed:
		case <-ctx.Done():
			err = ctx.Err()
		}
		c.mu.Lock()
		if err != nil {
			return err
		}
	}
	// One token wakes one Send; there may be room for the next one too, which
	// looks for itself.
	c.passRoom()
	return nil
}

func (c *Channel) full() bool {
	return c.err == nil && c.size >= c.limit
}

// passRoom leaves a token for one waiting Send.
func (c *Channel) passRoom() {
	select {
	case c.room <- struct{}{}:
	default:
	}
}

// sendError tells, under mu, why nothing can be sent.
func (c *Channel) sendError() error {
	switch {
	case c.err != nil:
		return c.err
	case c.ending:
		return errClosed("sending has ended")
	case c.str.Context().Err() != nil:
		c.fail(context.Cause(c.str.Context()))
		return c.err
	}
	return nil
}

// startWriting starts, under mu, a writer where none runs. A writer lives only
// as long as there is something to write, so idle channels cost no goroutine.
func (c *Channel) startWriting() error {
	if c.writing {
		return nil
	}
	if !c.start(c.write) {
		c.fail(errClosed("session closed"))
		return c.err
	}
	c.writing = true
	return nil
}

// writeQueued writes until the queue is empty. What is queued during a write
// makes the next one.
func (c *Channel) writeQueued() {
	defer c.done()
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.err == nil && len(c.queue) > 0 {
		out, size := c.queue, c.size
		c.queue, c.spare, c.size = c.spare, nil, 0
		c.mu.Unlock()
		c.passRoom()
		err := c.writeAll(out)
		c.mu.Lock()
		c.written += uint64(size)
		c.spare = free(out)
		if err != nil {
			c.fail(err)
		}
		c.wakeFlushes()
	}
	c.writing = false
	if c.ending && c.err == nil {
		c.str.Close()
	}
}

func (c *Channel) writeAll(pieces []piece) error {
	for _, p := range pieces {
		if _, err := c.str.Write(p.bytes()); err != nil {
			return err
		}
	}
	return nil
}

// fail ends, under mu, the sending direction on this side.
func (c *Channel) fail(err error) {
	if c.err != nil {
		return
	}
	c.err = channelError(err)
	close(c.failed)
	c.queue, c.size = free(c.queue), 0
}

func (c *Channel) wakeFlushes() {
	waiting := c.flushes[:0]
	for _, f := range c.flushes {
		if f.until <= c.written {
			close(f.done)
		} else {
			waiting = append(waiting, f)
		}
	}
	clear(c.flushes[len(waiting):])
	c.flushes = waiting
}

// Flush waits until what was queued before it has been handed to the carrier,
// which has room to send it or holds the last packet of it. It does not say
// that the peer has it.
func (c *Channel) Flush(ctx context.Context) error {
	c.mu.Lock()
	if c.err != nil || c.written == c.queued {
		defer c.mu.Unlock()
		return c.err
	}
	f := flush{until: c.queued, done: make(chan struct{})}
	c.flushes = append(c.flushes, f)
	c.mu.Unlock()
	select {
	case <-f.done:
	case <-c.failed:
	case <-ctx.Done():
		return ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// CloseSend ends the sending direction after what is queued: the peer's Next
// then returns io.EOF. It does not wait.
func (c *Channel) CloseSend() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil || c.ending {
		return c.err
	}
	c.ending = true
	if !c.writing {
		c.str.Close()
	}
	return nil
}

// Reset ends both directions at once and tells the peer the code. What is
// queued, or sent and not yet received, is dropped. After a clean end of both
// directions it does nothing.
func (c *Channel) Reset(code protocol.Code) {
	c.mu.Lock()
	c.fail(errClosed("channel reset"))
	c.mu.Unlock()
	c.str.CancelWrite(quic.StreamErrorCode(code))
	c.str.CancelRead(quic.StreamErrorCode(code))
}

// Done is closed when the sending direction has ended: by CloseSend once
// everything is handed over, by Reset, by the peer, or with the session.
func (c *Channel) Done() <-chan struct{} { return c.str.Context().Done() }

// Err is nil while Send works and then tells why it does not.
func (c *Channel) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sendError()
}
