package protocol

import (
	"crypto/ed25519"
	"time"
)

// Drain tells that the registry is about to stop: it takes no new publishes on
// this session, answers those it has, then ends the session with ErrDraining.
type Drain struct {
	RetryAfter time.Duration // come back after this, plus jitter
	Reason     string
	Extra      Extra
}

// Type is TypeDrain.
func (f *Drain) Type() FrameType { return TypeDrain }

// Append appends the frame.
func (f *Drain) Append(b []byte) []byte { return appendFrame(b, f) }

func (f *Drain) fields(c *codec) {
	c.millis(&f.RetryAfter)
	c.text(&f.Reason)
	c.extra(&f.Extra)
}

// Fail refuses the request with this ID; ID 0 concerns the channel it stands on,
// which ends after it.
type Fail struct {
	ID         uint64
	Code       Code
	RetryAfter time.Duration
	Detail     string
	Extra      Extra
}

// Type is TypeFail.
func (f *Fail) Type() FrameType { return TypeFail }

// Append appends the frame.
func (f *Fail) Append(b []byte) []byte { return appendFrame(b, f) }

func (f *Fail) fields(c *codec) {
	number(c, &f.ID)
	number(c, &f.Code)
	c.millis(&f.RetryAfter)
	c.text(&f.Detail)
	c.extra(&f.Extra)
}

// Err is the refusal as an error.
func (f *Fail) Err() *Error {
	return &Error{Code: f.Code, Detail: f.Detail, RetryAfter: f.RetryAfter}
}

// Done answers a request that has nothing to tell.
type Done struct {
	ID    uint64
	Extra Extra
}

// Type is TypeDone.
func (f *Done) Type() FrameType { return TypeDone }

// Append appends the frame.
func (f *Done) Append(b []byte) []byte { return appendFrame(b, f) }

func (f *Done) fields(c *codec) {
	number(c, &f.ID)
	c.extra(&f.Extra)
}

// Successor announces the registry's next key to connected clients, signed with
// the present one.
type Successor struct {
	Succession Succession
	Extra      Extra
}

// Type is TypeSuccessor.
func (f *Successor) Type() FrameType { return TypeSuccessor }

// Append appends the frame.
func (f *Successor) Append(b []byte) []byte { return appendFrame(b, f) }

func (f *Successor) fields(c *codec) {
	c.sized((*[]byte)(&f.Succession.Old), ed25519.PublicKeySize)
	c.sized((*[]byte)(&f.Succession.New), ed25519.PublicKeySize)
	c.sized(&f.Succession.Signature, ed25519.SignatureSize)
	c.extra(&f.Extra)
}

// PingSize is how much a client pads its pings by: enough that a registry which
// has lost the session may answer the packet with a stateless reset, which it
// does not for one of less than 43 bytes (RFC 9000 §10.3.3).
const PingSize = 32

// Ping asks for a sign of life; answered by Done.
type Ping struct {
	ID    uint64
	Pad   []byte // up to PingSize bytes of no meaning
	Extra Extra
}

// Type is TypePing.
func (f *Ping) Type() FrameType { return TypePing }

// Append appends the frame.
func (f *Ping) Append(b []byte) []byte { return appendFrame(b, f) }

func (f *Ping) fields(c *codec) {
	number(c, &f.ID)
	c.bytes(&f.Pad)
	c.extra(&f.Extra)
}

// Check reports what is wrong with the frame as a request: ErrInvalid, or
// ErrTooLarge for more padding than PingSize.
func (f *Ping) Check() error {
	if len(f.Pad) > PingSize {
		return Errorf(ErrTooLarge, "ping of %d bytes, maximum %d", len(f.Pad), PingSize)
	}
	return checkID(f.ID)
}
