package config

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/protocol"
)

// None, as what is expected, is that there is no version yet.
const None uint64 = math.MaxUint64

// Leap is how far ahead of registry time a version may be that skips others:
// versions are unix seconds or count on from the last one, and one far above
// would leave no room for them.
const Leap = 24 * time.Hour

// PublishOptions vary a publish. The zero value publishes the next version
// unless somebody else does so meanwhile.
type PublishOptions struct {
	// Version to publish; 0 is the next: above all before it, and unix seconds
	// where that is higher, as scripts use them. In a log that has no version yet, or
	// is younger than two days, it is above what agents report, too: they may know
	// versions of a log that was lost.
	Version uint64

	// Expect is the version the caller has read, so that nothing is overwritten
	// unseen; None if there was none. 0 is whatever there is when Publish begins.
	// Where this node itself has published the same bytes upon that version, and
	// nobody anything since, it is a success: the answer was lost, and this is the
	// publish again.
	Expect uint64

	Reason     string
	Who        string // by default that of the Swarm
	Validators []Validator
	Leadership Leadership // publishes only as long as it lasts
	Extra      []Field    // more fields of the message; no name of ours
}

// Published tells what is in the log.
type Published struct {
	Version uint64
	Digest  Digest
	Seq     protocol.Seq
	Epoch   protocol.EpochID
	Time    time.Time // registry time

	// Duplicate: the version was there already, with the same bytes.
	Duplicate bool

	// BestEffort: the link has no fences, and another may have published the same
	// version.
	BestEffort bool
}

// Publish makes a new version of config, which is a JSON object: its bytes are
// kept as they are, without the space around it. Each validator is asked first.
//
// Of several that publish one version at once exactly one succeeds; the others get
// a [*ConflictError]. Who publishes the bytes that have the version already
// succeeds too. While a rollout is going on, the new version ends it.
//
// Errors, besides those of [client.Conn.Publish]: *ConflictError; what a validator
// says; ErrInvalid for bytes that are no document and a version out of range or
// more than [Leap] ahead; ErrStaleTerm when Leadership is over. Over a link
// without fences Leadership is refused with errors.ErrUnsupported.
func (s *Swarm) Publish(ctx context.Context, config []byte, o PublishOptions) (Published, error) {
	d, err := s.draft(ctx, config, &o)
	if err != nil {
		return Published{}, err
	}
	h, err := s.head(ctx)
	if err != nil {
		return Published{}, err
	}
	return s.publish(ctx, d, h, &o)
}

// draft makes a document without a version and has it validated.
func (s *Swarm) draft(ctx context.Context, config []byte, o *PublishOptions) (*Document, error) {
	if err := s.checkOptions(o); err != nil {
		return nil, err
	}
	d, err := NewDocument(o.Version, config)
	if err != nil {
		return nil, fmt.Errorf("config %q: %w", s.name, err)
	}
	d.Reason, d.Who, d.Extra = o.Reason, o.Who, o.Extra
	if d.Who == "" {
		d.Who = s.o.Who
	}
	if n := len(d.Append(nil)); n > maxMessage {
		return nil, protocol.Errorf(protocol.ErrTooLarge, "config %q: a message of %d bytes, maximum %d", s.name, n, maxMessage)
	}
	return d, s.validate(ctx, d, o.Validators)
}

func (s *Swarm) validate(ctx context.Context, d *Document, list []Validator) error {
	err := judgeAll(ctx, d, list)
	if err == nil {
		return nil
	}
	s.logPanic(err)
	return fmt.Errorf("config %q: %w", s.name, err)
}

// logPanic keeps the stack of a panic, of which the error tells the value only.
func (s *Swarm) logPanic(err error) {
	if panicked := new(panicError); errors.As(err, &panicked) {
		s.o.Logger.Error("config: panic", "swarm", s.name, "panic", panicked.value, "stack", string(panicked.stack))
	}
}

func (s *Swarm) checkOptions(o *PublishOptions) error {
	if o.Leadership != nil && !s.fenced {
		return fmt.Errorf("config %q: publish as the leader: %w", s.name, errors.ErrUnsupported)
	}
	if o.Version > protocol.MaxTerm {
		return protocol.Errorf(protocol.ErrInvalid, "config %q: version %d is above 2^53-1", s.name, o.Version)
	}
	if o.Expect > protocol.MaxTerm && o.Expect != None {
		return protocol.Errorf(protocol.ErrInvalid, "config %q: no version can be %d, which is expected", s.name, o.Expect)
	}
	for _, f := range o.Extra {
		if !isValue(f.Value) {
			return protocol.Errorf(protocol.ErrInvalid, "config %q: extra field %q is not JSON", s.name, f.Name)
		}
		if reserved[f.Name] {
			return protocol.Errorf(protocol.ErrInvalid, "config %q: extra field %q has a meaning of its own", s.name, f.Name)
		}
	}
	return nil
}

// reserved are the fields of ours.
var reserved = map[string]bool{
	"type": true, "version": true, "config": true, "digest": true, "reason": true, "who": true,
	"rolled_back_from": true, "rolled_back_to": true, "rollout": true,
}

// publish publishes a document behind what was read.
func (s *Swarm) publish(ctx context.Context, d *Document, h head, o *PublishOptions) (Published, error) {
	if o.Expect != 0 && o.Expect != h.top() && (o.Expect != None || h.top() != 0) {
		done, err := s.repeated(ctx, d, h, o)
		if err != nil || done.Duplicate {
			return done, err
		}
		return Published{}, &ConflictError{Swarm: s.name, Version: o.Version, Current: h.top(), Expect: o.Expect}
	}
	if err := s.number(ctx, d, h); err != nil {
		return Published{}, err
	}
	if d.Version <= max(h.K, h.top()) {
		return s.taken(ctx, d, nil)
	}
	p := client.Publication{Topic: s.topic, Payload: d.Append(nil), Conditions: s.raise(h.FenceState, d.Version)}
	ack, err := s.send(ctx, p, o.Leadership)
	if err != nil {
		return s.taken(ctx, d, err)
	}
	return Published{
		Version: d.Version, Digest: d.Digest, Seq: ack.Seq, Epoch: ack.Epoch, Time: ack.Time,
		Duplicate: ack.Duplicate, BestEffort: !s.fenced,
	}, nil
}

// repeated finds what this node itself has published upon what is expected, with the
// same bytes: its answer was lost, and this is the same publish again. Without a
// Duplicate there is nothing of the kind.
func (s *Swarm) repeated(ctx context.Context, d *Document, h head, o *PublishOptions) (Published, error) {
	newest := h.latest
	if newest == nil || h.staged != nil || d.Staged || newest.Sender != s.conn.Self().Node || !sameContent(newest, d) ||
		newest.RolledBackTo != d.RolledBackTo || o.Version != 0 && o.Version != newest.Version {
		return Published{}, nil
	}
	before := None
	for prior, err := range s.versions(ctx, h.FenceState) {
		if err != nil {
			return Published{}, fmt.Errorf("config %q: %w", s.name, err)
		}
		if prior.Version < newest.Version {
			before = prior.Version
			break
		}
	}
	if before != o.Expect {
		return Published{}, nil
	}
	return s.published(newest), nil
}

// published is a version that is in the log already.
func (s *Swarm) published(d *Document) Published {
	return Published{
		Version: d.Version, Digest: d.Digest, Seq: d.Seq, Epoch: d.Epoch, Time: d.Time,
		Duplicate: true, BestEffort: !s.fenced,
	}
}

// number gives the document its version, or checks the one it has.
func (s *Swarm) number(ctx context.Context, d *Document, h head) error {
	next := max(h.K, h.top()) + 1
	if d.Version != 0 && d.Version <= next {
		return nil
	}
	now, err := s.now(ctx)
	if err != nil {
		return fmt.Errorf("config %q: %w", s.name, err)
	}
	if d.Version == 0 {
		known, err := s.reported(ctx, h, now)
		if err != nil {
			return err
		}
		d.Version = max(next, uint64(max(0, now.Unix())), known+1)
	}
	if d.Version > protocol.MaxTerm {
		return protocol.Errorf(protocol.ErrLimit, "config %q: no version is left above %d", s.name, next-1)
	}
	if d.Version > next && d.Version > uint64(max(0, now.Add(Leap).Unix())) {
		return protocol.Errorf(protocol.ErrInvalid,
			"config %q: version %d skips ahead: the last one is %d, and as a time it is more than a day away", s.name, d.Version, next-1)
	}
	return nil
}

// young is how long a log may be missing versions that agents know from the one
// before it. Those were at most Leap ahead of the clock when it began, but for some
// that were counted on.
const young = 2 * Leap

// reported is the highest version that agents report to know, in a log that may have
// lost it; they would not take a lower one. A number too far ahead for a version
// is passed over, so that nobody can use them up by a report.
func (s *Swarm) reported(ctx context.Context, h head, now time.Time) (top uint64, err error) {
	born := h.Epoch.Born
	if !s.fenced || h.K != 0 && born != 0 && now.Sub(time.Unix(int64(born), 0)) > young {
		return 0, nil
	}
	limit := uint64(max(0, now.Add(Leap).Unix()))
	err = s.steady(ctx, func() error {
		top = 0
		return s.read(ctx, s.status, func(m *protocol.Message, _ protocol.EpochID) bool {
			if r, err := ParseReport(m.Payload); err == nil {
				top = max(top, r.knows(limit))
			}
			return true
		}, client.FromAll())
	})
	if errors.Is(err, protocol.ErrDenied) {
		return 0, nil // who may not read reports publishes all the same
	}
	if err != nil {
		return 0, fmt.Errorf("config %q: %w", s.name, err)
	}
	return top, nil
}

// raise is the condition that nothing stamped came since the fence was read, and
// makes version its value. Over a link without fences there is none.
func (s *Swarm) raise(f client.FenceState, version uint64) []protocol.Condition {
	if !s.fenced {
		return nil
	}
	return []protocol.Condition{{
		Topic: s.topic, Epoch: f.Epoch.ID, Term: version, Raise: version, HasExpect: true, Expect: f.S,
	}}
}

// send publishes a message, under a leadership if there is one, and waits.
func (s *Swarm) send(ctx context.Context, p client.Publication, l Leadership) (client.Ack, error) {
	publish := s.conn.Publish
	if l != nil {
		publish = l.Publish
	}
	return publish(ctx, p).Wait(ctx)
}

// taken looks what has the version of a document that was refused, or of which
// that is not known: its own bytes are success.
func (s *Swarm) taken(ctx context.Context, d *Document, refused error) (Published, error) {
	if refused != nil && !s.refusedHere(refused) && !errors.Is(refused, protocol.ErrUnknownOutcome) {
		return Published{}, fmt.Errorf("config %q: publish version %d: %w", s.name, d.Version, refused)
	}
	if ctx.Err() != nil {
		return Published{}, refused
	}
	var found *Document
	var f client.FenceState
	err := s.steady(ctx, func() (err error) {
		if f, err = s.fenceIfAny(ctx); err != nil {
			return err
		}
		found, err = s.find(ctx, f, d.Version)
		return err
	})
	switch {
	case err != nil:
		return Published{}, errors.Join(refused, err)
	case found != nil && sameContent(found, d) && found.Staged == d.Staged:
		return s.published(found), nil
	case f.K < d.Version && refused != nil && !s.refusedHere(refused):
		return Published{}, refused // it may still come
	}
	return Published{}, s.conflict(ctx, d.Version, f)
}

// refusedHere reports whether the fence of this swarm refused, and not a leader's.
func (s *Swarm) refusedHere(err error) bool {
	var e *protocol.Error
	return errors.As(err, &e) && e.Topic == s.topic && (e.Code == protocol.ErrStaleTerm || e.Code == protocol.ErrConflict)
}

func (s *Swarm) conflict(ctx context.Context, version uint64, f client.FenceState) error {
	current := f.K
	if !s.fenced {
		h, err := s.head(ctx)
		if err != nil {
			return err
		}
		current = h.top()
	}
	return &ConflictError{Swarm: s.name, Version: version, Current: current}
}
