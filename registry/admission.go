package registry

import (
	"fmt"

	"github.com/pilotgo/pilotgo/protocol"
)

// AdmitMode says which keys are let in that nothing was said about. Keys that an
// operator or the configuration named have a session in every mode, and keys that
// were revoked in none.
type AdmitMode int

// The modes.
const (
	// AdmitOpen lets in every key.
	AdmitOpen AdmitMode = iota

	// AdmitKnown lets in keys that have been let in before, as by a join token or
	// while the mode was another.
	AdmitKnown

	// AdmitToken lets in those, and who brings a join token.
	AdmitToken
)

var admitModes = [...]string{AdmitOpen: "open", AdmitKnown: "known", AdmitToken: "token"}

// String is the word that ParseAdmitMode reads.
func (m AdmitMode) String() string {
	if m >= 0 && int(m) < len(admitModes) {
		return admitModes[m]
	}
	return fmt.Sprintf("mode %d", int(m))
}

// ParseAdmitMode reads open, known or token. The error is ErrInvalid.
func ParseAdmitMode(s string) (AdmitMode, error) {
	for m, name := range admitModes {
		if s == name {
			return AdmitMode(m), nil
		}
	}
	return 0, protocol.Errorf(protocol.ErrInvalid, "%q is no way to admit: open, known or token", s)
}

// Admission says who has a session. Keys are named by their hash, whose text is
// the fingerprint.
type Admission struct {
	Mode AdmitMode

	// Allow are keys to let in.
	Allow []protocol.KeyHash

	// Operators are keys to let in that may do everything, whatever Access or an
	// operator of another kind says of them.
	Operators []protocol.KeyHash
}

// The labels that mean something to AccessByLabel.
const (
	LabelAdmin = "admin"
	LabelRelay = "relay"
)

// admission is an Admission made to be asked.
type admission struct {
	mode      AdmitMode
	listed    map[protocol.KeyHash]struct{} // operators too
	operators map[protocol.KeyHash]struct{}
}

func (a Admission) prepare() (admission, error) {
	if a.Mode < AdmitOpen || a.Mode > AdmitToken {
		return admission{}, protocol.Errorf(protocol.ErrInvalid, "Admission.Mode is %d", a.Mode)
	}
	p := admission{
		mode: a.Mode, listed: make(map[protocol.KeyHash]struct{}), operators: make(map[protocol.KeyHash]struct{}),
	}
	for _, key := range a.Allow {
		p.listed[key] = struct{}{}
	}
	for _, key := range a.Operators {
		p.listed[key], p.operators[key] = struct{}{}, struct{}{}
	}
	return p, nil
}

// applicant is this session's node on its way in.
func (s *session) applicant(f *protocol.Hello) *applicant {
	a := &applicant{
		key: s.caller.Key, hash: s.hash, name: s.caller.Name, tags: s.caller.Tags,
		mode: s.r.admission.mode, operator: s.operator,
	}
	_, a.listed = s.r.admission.listed[s.hash]
	if text := string(f.Token); protocol.IsJoinToken(text) {
		token, err := protocol.ParseJoinToken(text)
		a.token, a.brought = token, err == nil
	}
	return a
}

// judged lets the sessions of a key know what was said about it, once that is in
// the log: of nil, those of all keys. A key that was revoked has none any more.
func (r *Registry) judged(b *broker, key *protocol.KeyHash) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for s := range r.sessions {
		if s.operator || key != nil && s.hash != *key {
			continue
		}
		e := b.standingOf[s.hash]
		if e.Standing == protocol.StandingRevoked {
			s.end(protocol.Errorf(protocol.ErrNotAdmitted, "this key was revoked"))
			continue
		}
		s.setLabels(e.Labels)
		s.recheck()
	}
	r.wakeRechecked()
}
