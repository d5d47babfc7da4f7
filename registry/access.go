package registry

import (
	"context"
	"crypto/ed25519"
	"errors"
	"net"
	"slices"

	"github.com/pilotgo/pilotgo/protocol"
)

// Right is what a node may be allowed to do.
type Right int

// The rights.
const (
	RightAdmit     Right = iota + 1 // have a session
	RightPublish                    // publish on Topic, or raise its fence; send a direct message to To
	RightSubscribe                  // read Topic, by subscription or inbox, and its fence
	RightAdmin                      // an operator's work on Topic, or with none on the registry itself
	RightRelay                      // publish on behalf of another node
)

// Caller is who asks, as the handshake proved it and as its hello told it.
type Caller struct {
	Node protocol.NodeID
	Key  ed25519.PublicKey // proved; rules go by it
	Hash protocol.KeyHash  // of the key
	Name string            // told, like Tags: anybody can take any
	Tags []string
	Addr net.Addr // where it comes from

	// Labels are those that operators gave the key, in byte order. They change
	// while a session is there; nobody changes the slice.
	Labels []string
}

// Request asks for a right.
type Request struct {
	Caller
	Right Right

	// Token is the join token, with RightAdmit only.
	Token []byte

	// Topic is what the right is for. With RightSubscribe it can be a pattern:
	// nil says that all that it matches may be read. An error narrows the
	// subscription: each topic is then asked for by itself, and the answer holds
	// as long as the subscription, or until Recheck or a change of the labels.
	Topic string

	// To is the recipient of a direct message.
	To protocol.NodeID
}

// AccessFunc decides, but for Operators, who may do everything. Its error is told to the caller with its code, or as
// protocol.ErrDenied (protocol.ErrNotAdmitted for RightAdmit) when it has none.
//
// It is called for each publish and from many goroutines at once, so it must be
// quick, and it must not call the registry.
type AccessFunc func(ctx context.Context, r Request) error

// AllowAll admits everybody to everything.
func AllowAll(context.Context, Request) error { return nil }

// checkBind keeps a registry without rules from strangers.
func (r *Registry) checkBind(addr net.Addr) error {
	if !r.unguarded() || isLoopback(addr) {
		return nil
	}
	return protocol.Errorf(protocol.ErrInvalid,
		"%v is not a loopback address, and everybody who reaches it may do everything: set Options.Access or Options.Admission", addr)
}

// unguarded reports whether everybody may do everything.
func (r *Registry) unguarded() bool { return r.o.Access == nil && r.admission.mode == AdmitOpen }

func isLoopback(addr net.Addr) bool {
	switch a := addr.(type) {
	case *net.UDPAddr:
		return a.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	}
	return false
}

// allow asks for a right of this session's node.
func (s *session) allow(r Request) *protocol.Error {
	if s.operator || s.r.unguarded() {
		return nil
	}
	code := protocol.ErrDenied
	if r.Right == RightAdmit {
		code = protocol.ErrNotAdmitted
	}
	r.Caller = s.caller
	r.Labels = s.labelled()
	return refusal(s.r.o.Access(s.ctx, r), code)
}

// AccessByLabel is for a registry without rules of its own that does not let in
// everybody: all who are let in may publish and subscribe, those with LabelAdmin do
// an operator's work, and those with LabelRelay publish on behalf of others.
func AccessByLabel(_ context.Context, r Request) error {
	switch {
	case r.Right == RightAdmin && !slices.Contains(r.Labels, LabelAdmin):
		return protocol.Errorf(protocol.ErrDenied, "for operators")
	case r.Right == RightRelay && !slices.Contains(r.Labels, LabelRelay):
		return protocol.Errorf(protocol.ErrDenied, "for relays")
	}
	return nil
}

// setLabels and labelled may be called from any goroutine.
func (s *session) setLabels(labels []string) { s.labels.Store(&labels) }

func (s *session) labelled() []string {
	if list := s.labels.Load(); list != nil {
		return *list
	}
	return nil
}

// rights are those of a narrowed subscription. A log knows them only as far as
// they were asked for: it is read under locks, where nobody's rules are to run.
type rights struct {
	s       *session
	known   map[string]bool
	unknown []string // met by the log since reading began
}

// remembered bounds what is known, and what is unknown.
const remembered = 4096

func newRights(s *session) *rights { return &rights{s: s, known: make(map[string]bool)} }

// begin is called before a read.
func (r *rights) begin() {
	if len(r.known) >= remembered {
		clear(r.known)
	}
}

// readable is for the log's Selection. It leaves in what is not known.
func (r *rights) readable(topic string) bool {
	ok, known := r.known[topic]
	if !known && len(r.unknown) < remembered {
		r.unknown = append(r.unknown, topic)
	}
	return ok || !known
}

// allowed asks, once for a topic.
func (r *rights) allowed(topic string) bool {
	ok, known := r.known[topic]
	if !known {
		ok = r.s.allow(Request{Right: RightSubscribe, Topic: topic}) == nil
		r.known[topic] = ok
	}
	return ok
}

// keep leaves out the records that may not be read.
func (r *rights) keep(list []*Record) []*Record {
	return slices.DeleteFunc(list, func(m *Record) bool { return m.To == 0 && !r.allowed(m.Topic) })
}

// learn asks for what the log met and reports whether some of it may not be read.
func (r *rights) learn() (denied bool) {
	for _, topic := range r.unknown {
		_, known := r.known[topic]
		denied = !r.allowed(topic) && !known || denied
	}
	r.unknown = r.unknown[:0]
	return denied
}

// refusal makes an error fit for the wire. code is for those that have none; the
// text of an internal one may name files and addresses of this machine, and stays
// here.
func refusal(err error, code protocol.Code) *protocol.Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*protocol.Error](err); ok {
		told := *e
		return &told
	}
	if c, ok := errors.AsType[protocol.Code](err); ok {
		return &protocol.Error{Code: c}
	}
	if code == protocol.ErrInternal {
		return &protocol.Error{Code: code}
	}
	return protocol.Errorf(code, "%v", err)
}
