package protocol

import (
	"crypto/ed25519"
	"time"
)

// Features is a set of optional abilities; both sides use only what both named.
type Features uint64

// Limits are a registry's maximums for one session.
type Limits struct {
	Payload       uint64 // bytes of one payload
	InFlight      uint64 // publishes of one lane without an answer
	Subscriptions uint64 // open at once
	Page          uint64 // bytes of one page of a list, about
}

// Hello opens a session: the first frame on its first channel, sent by the client.
type Hello struct {
	MinVersion, MaxVersion uint64
	Features               Features
	Instance               Instance
	Name                   string   // a host name to show; may be empty
	Tags                   []string // labels the client gives itself
	Token                  []byte   // join token, empty where none is needed
	Extra                  Extra
}

var helloSpec = spec[Hello]{TypeHello, 7,
	func(e *encoder, f *Hello) {
		e.uint(f.MinVersion)
		e.uint(f.MaxVersion)
		e.uint(uint64(f.Features))
		e.bytes(f.Instance[:])
		e.text(f.Name)
		e.texts(f.Tags)
		e.bytes(f.Token)
	},
	func(d *decoder, f *Hello) {
		f.MinVersion = d.uint()
		f.MaxVersion = d.uint()
		f.Features = Features(d.uint())
		d.fixed(f.Instance[:])
		f.Name = d.text()
		f.Tags = d.texts()
		f.Token = d.bytes()
	},
	func(f *Hello) *Extra { return &f.Extra }}

// Welcome answers Hello.
type Welcome struct {
	Version  uint64
	Features Features
	Epoch    Epoch
	Node     NodeID // the client's id, as the registry derived it from the proved key
	Head     Seq    // highest seq in the log
	Now      Time   // registry time
	Limits   Limits
	Software string // name and version of the registry, to show
	Extra    Extra
}

var welcomeSpec = spec[Welcome]{TypeWelcome, 8,
	func(e *encoder, f *Welcome) {
		e.uint(f.Version)
		e.uint(uint64(f.Features))
		e.list(2)
		e.uint(uint64(f.Epoch.ID))
		e.uint(f.Epoch.Born)
		e.uint(uint64(f.Node))
		e.uint(uint64(f.Head))
		e.uint(uint64(f.Now))
		e.list(4)
		e.uint(f.Limits.Payload)
		e.uint(f.Limits.InFlight)
		e.uint(f.Limits.Subscriptions)
		e.uint(f.Limits.Page)
		e.text(f.Software)
	},
	func(d *decoder, f *Welcome) {
		f.Version = d.uint()
		f.Features = Features(d.uint())
		d.exactly(2)
		f.Epoch.ID = EpochID(d.uint())
		f.Epoch.Born = d.uint()
		f.Node = NodeID(d.uint32())
		f.Head = Seq(d.uint())
		f.Now = Time(d.uint())
		d.exactly(4)
		f.Limits.Payload = d.uint()
		f.Limits.InFlight = d.uint()
		f.Limits.Subscriptions = d.uint()
		f.Limits.Page = d.uint()
		f.Software = d.text()
	},
	func(f *Welcome) *Extra { return &f.Extra }}

// Drain tells that the registry is about to stop: it takes no new publishes on
// this session, answers those it has, then ends the session with ErrDraining.
type Drain struct {
	RetryAfter time.Duration // come back after this, plus jitter
	Reason     string
	Extra      Extra
}

var drainSpec = spec[Drain]{TypeDrain, 2,
	func(e *encoder, f *Drain) { e.millis(f.RetryAfter); e.text(f.Reason) },
	func(d *decoder, f *Drain) { f.RetryAfter = d.millis(); f.Reason = d.text() },
	func(f *Drain) *Extra { return &f.Extra }}

// Fail refuses the request with this ID; ID 0 concerns the channel it stands on,
// which ends after it.
type Fail struct {
	ID         uint64
	Code       Code
	RetryAfter time.Duration
	Detail     string
	Extra      Extra
}

var failSpec = spec[Fail]{TypeFail, 4,
	func(e *encoder, f *Fail) {
		e.uint(f.ID)
		e.uint(uint64(f.Code))
		e.millis(f.RetryAfter)
		e.text(f.Detail)
	},
	func(d *decoder, f *Fail) {
		f.ID = d.uint()
		f.Code = Code(d.uint())
		f.RetryAfter = d.millis()
		f.Detail = d.text()
	},
	func(f *Fail) *Extra { return &f.Extra }}

// Err is the refusal as an error.
func (f *Fail) Err() *Error {
	return &Error{Code: f.Code, Detail: f.Detail, RetryAfter: f.RetryAfter}
}

// Done answers a request that has nothing to tell.
type Done struct {
	ID    uint64
	Extra Extra
}

var doneSpec = spec[Done]{TypeDone, 1,
	func(e *encoder, f *Done) { e.uint(f.ID) },
	func(d *decoder, f *Done) { f.ID = d.uint() },
	func(f *Done) *Extra { return &f.Extra }}

// Successor announces the registry's next key to connected clients, signed with
// the present one.
type Successor struct {
	Succession Succession
	Extra      Extra
}

var successorSpec = spec[Successor]{TypeSuccessor, 3,
	func(e *encoder, f *Successor) {
		e.bytes(f.Succession.Old)
		e.bytes(f.Succession.New)
		e.bytes(f.Succession.Signature)
	},
	func(d *decoder, f *Successor) {
		f.Succession.Old = make(ed25519.PublicKey, ed25519.PublicKeySize)
		f.Succession.New = make(ed25519.PublicKey, ed25519.PublicKeySize)
		f.Succession.Signature = make([]byte, ed25519.SignatureSize)
		d.fixed(f.Succession.Old)
		d.fixed(f.Succession.New)
		d.fixed(f.Succession.Signature)
	},
	func(f *Successor) *Extra { return &f.Extra }}

// exactly reads the length of a nested record that has no room for more.
func (d *decoder) exactly(n int) {
	if got := d.list(); d.err == nil && got != n {
		d.fail("record of another length")
	}
}

func (f *Hello) Type() FrameType     { return TypeHello }
func (f *Welcome) Type() FrameType   { return TypeWelcome }
func (f *Drain) Type() FrameType     { return TypeDrain }
func (f *Fail) Type() FrameType      { return TypeFail }
func (f *Done) Type() FrameType      { return TypeDone }
func (f *Successor) Type() FrameType { return TypeSuccessor }

func (f *Hello) Append(b []byte) []byte     { return helloSpec.append(b, f) }
func (f *Welcome) Append(b []byte) []byte   { return welcomeSpec.append(b, f) }
func (f *Drain) Append(b []byte) []byte     { return drainSpec.append(b, f) }
func (f *Fail) Append(b []byte) []byte      { return failSpec.append(b, f) }
func (f *Done) Append(b []byte) []byte      { return doneSpec.append(b, f) }
func (f *Successor) Append(b []byte) []byte { return successorSpec.append(b, f) }
