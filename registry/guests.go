package registry

import (
	"cmp"
	"crypto/ed25519"
	"slices"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// applicant is who asks for a session.
type applicant struct {
	key  ed25519.PublicKey
	hash protocol.KeyHash
	name string
	tags []string

	mode     AdmitMode
	listed   bool // by the configuration, as an operator or else
	operator bool

	token   protocol.JoinToken
	brought bool // token is set
}

// letIn decides whether a key has a session, and begins it. It gives the labels
// of the key. On an error nothing is staged.
func (b *broker) letIn(now protocol.Time, a *applicant) (labels []string, fault *protocol.Error) {
	e := b.standingOf[a.hash]
	e.Key = a.hash
	token, fault := b.entitled(now, a, &e)
	if fault != nil {
		return nil, fault
	}
	id := protocol.NodeIDOf(a.key)
	vouchedFor := a.listed || token != nil || b.vouchedFor(a.hash)
	if fault := b.nodeFault(now, id, a, vouchedFor); fault != nil {
		return nil, fault
	}
	if token != nil {
		token.Used++
		b.keepToken(*token)
		tokenID := token.ID
		e.Standing, e.Since, e.Token = protocol.StandingAdmitted, now, tokenID[:]
		e.Labels = relabelled(e.Labels, token.Labels, nil)
		e.Labels = e.Labels[:min(len(e.Labels), protocol.MaxLabels)]
		b.judge(e)
	}
	b.enroll(now, id, a.key, a.name, a.tags)
	return e.Labels, nil
}

// entitled tells why a key has no session; or the token that it is let in by, nil
// where it needs none.
func (b *broker) entitled(now protocol.Time, a *applicant, e *protocol.KeyEntry) (*joinToken, *protocol.Error) {
	switch {
	case a.operator, e.Standing == protocol.StandingAdmitted:
		return nil, nil
	case e.Standing == protocol.StandingRevoked:
		return nil, protocol.Errorf(protocol.ErrNotAdmitted, "this key was revoked")
	}
	known := a.mode == AdmitOpen || a.listed || b.wasHere(a.key)
	if a.brought && a.mode != AdmitKnown {
		token, fault := b.tokenFor(now, a.token)
		if fault == nil && b.standingFault(a.hash) == nil {
			return &token, nil
		}
		if !known {
			return nil, cmp.Or(fault, b.standingFault(a.hash))
		}
	}
	switch {
	case known:
		return nil, nil
	case a.mode == AdmitToken:
		return nil, protocol.Errorf(protocol.ErrNotAdmitted, "this key is not known here and brings no join token")
	}
	return nil, protocol.Errorf(protocol.ErrNotAdmitted, "this key is not known here")
}

// wouldUse reports whether letIn would use up a token, which has to be stored.
func (b *broker) wouldUse(now protocol.Time, a *applicant) bool {
	e := b.standingOf[a.hash]
	token, fault := b.entitled(now, a, &e)
	return fault == nil && token != nil
}

func (b *broker) standingFault(key protocol.KeyHash) *protocol.Error {
	if _, known := b.standingOf[key]; known || len(b.standingOf) < b.opts.maxStandings {
		return nil
	}
	return protocol.Errorf(protocol.ErrLimit, "no room for another key that a token lets in")
}

// wasHere reports whether the key is in the node table.
func (b *broker) wasHere(key ed25519.PublicKey) bool {
	n, ok := b.nodesByID[protocol.NodeIDOf(key)]
	return ok && n.Key.Equal(key)
}

// nodeFault is why there is no room for a node. Where everybody is let in, strangers
// go to make some, and the last quarter is not for strangers.
func (b *broker) nodeFault(now protocol.Time, id protocol.NodeID, a *applicant, vouchedFor bool) *protocol.Error {
	n, known := b.nodesByID[id]
	room := b.opts.maxNodes
	if !vouchedFor {
		room -= b.opts.sparedNodes
	}
	switch {
	case known && !n.Key.Equal(a.key):
		return protocol.Errorf(protocol.ErrNodeIDTaken, "node %d", id)
	case known || len(b.nodesByID) < room || a.operator:
		return nil
	case a.mode == AdmitOpen && b.evict(now):
		return nil
	}
	fault := protocol.Errorf(protocol.ErrLimit, "%d nodes are known, and there is no room for another: an operator can forget some, or name this one", len(b.nodesByID))
	fault.RetryAfter = time.Duration(evictPause)
	return fault
}

// forgetNode frees the place of a node, and the inbox with it. A revocation
// stays, or forgetting a node would let it back in.
func (b *broker) forgetNode(id protocol.NodeID) *protocol.Error {
	n, ok := b.nodesByID[id]
	switch {
	case !ok:
		return protocol.Errorf(protocol.ErrNotFound, "node %d", id)
	case n.Online > 0:
		return protocol.Errorf(protocol.ErrConflict, "node %d has %d sessions: revoke its key first", id, n.Online)
	}
	e := protocol.KeyEntry{Key: protocol.KeyHashOf(n.Key)}
	if was := b.standingOf[e.Key]; was.Standing == protocol.StandingRevoked {
		e.Standing, e.Since = was.Standing, was.Since
	}
	b.judge(e)
	b.removeNode(n)
	return nil
}

// removeNode takes a node out of every table but those of keys.
func (b *broker) removeNode(n protocol.Node) {
	_ = b.join(b.time, n.ID, slices.Clone(b.topicsOf(n.ID)), true) // leaving has no faults
	if was := b.cursor(n.ID); was > 0 {
		b.setCursor(n.ID, 0)
		b.stage(tableCursors, nodeKey(n.ID), nil, func() { b.setCursor(n.ID, was) })
	}
	if _, spoke := b.spoken[n.ID]; spoke {
		delete(b.spoken, n.ID)
		b.stage(tableSenders, nodeKey(n.ID), nil, func() { b.spoken[n.ID] = struct{}{} })
	}
	b.dropNode(n.ID)
	b.stage(tableNodes, nodeKey(n.ID), nil, func() { b.putNode(n) })
}

// speaks notes that a node has something in the log: its id is its own from then
// on, as long as an operator does not say otherwise.
func (b *broker) speaks(id protocol.NodeID) {
	if _, spoke := b.spoken[id]; spoke {
		return
	}
	b.spoken[id] = struct{}{}
	b.stage(tableSenders, nodeKey(id), joinRow(), func() { delete(b.spoken, id) })
}
