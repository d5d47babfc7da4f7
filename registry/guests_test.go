package registry

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
)

// bearer is an applicant with a key of its own, and a token or none.
func bearer(n byte, mode AdmitMode, token ...protocol.JoinToken) *applicant {
	a := &applicant{key: publicKey(n), hash: protocol.KeyHashOf(publicKey(n)), mode: mode}
	if len(token) > 0 {
		a.token, a.brought = token[0], true
	}
	return a
}

func secretToken(n byte) protocol.JoinToken {
	return protocol.JoinToken{ID: protocol.TokenID{n}, Secret: [16]byte{n, n}}
}

// make makes a token and returns it.
func (d *trial) make(n byte, change ...func(*protocol.CreateToken)) protocol.JoinToken {
	d.t.Helper()
	token := secretToken(n)
	f := &protocol.CreateToken{ID: 1, Token: token.ID, Hash: token.Hash()}
	for _, c := range change {
		c(f)
	}
	_, fault := d.createToken(d.now, f)
	require.Nil(d.t, fault)
	d.store()
	return token
}

// comes lets in an applicant, who then goes, and returns its labels.
func (d *trial) comes(a *applicant) []string {
	d.t.Helper()
	labels, fault := d.letIn(d.now, a)
	require.Nil(d.t, fault)
	d.leave(d.now, protocol.NodeIDOf(a.key))
	d.store()
	return labels
}

// staysOut checks that an applicant is refused, and that nothing changes.
func (d *trial) staysOut(code protocol.Code, a *applicant) *protocol.Error {
	d.t.Helper()
	before := dump(d.broker)
	_, fault := d.letIn(d.now, a)
	require.NotNil(d.t, fault)
	require.Equal(d.t, code, fault.Code, fault.Detail)
	require.Equal(d.t, before, dump(d.broker))
	require.Nil(d.t, d.staged())
	return fault
}

func (d *trial) say(n byte, standing protocol.Standing, labels ...string) {
	d.t.Helper()
	_, fault := d.setKey(d.now, &protocol.SetKey{ID: 1, Key: protocol.KeyHashOf(publicKey(n)), Standing: standing, Add: labels})
	require.Nil(d.t, fault)
	d.store()
}

func TestWhoIsLetIn(t *testing.T) {
	const here, told, out, listed, operator, bearing = 1, 2, 3, 4, 5, 6
	for mode, want := range map[AdmitMode]string{
		AdmitOpen:  "here told listed operator bearing stranger",
		AdmitKnown: "here told listed operator",
		AdmitToken: "here told listed operator bearing",
	} {
		d := newTrial(t, brokerOptions{})
		token := d.make(1)
		d.comes(bearer(here, AdmitOpen))
		d.say(told, protocol.StandingAdmitted)
		d.say(out, protocol.StandingRevoked)
		var in []string
		for range 2 {
			in = nil
			for _, who := range []struct {
				name string
				a    *applicant
			}{
				{"here", bearer(here, mode)}, {"told", bearer(told, mode)}, {"out", bearer(out, mode, token)},
				{"listed", bearer(listed, mode)}, {"operator", bearer(operator, mode)},
				{"bearing", bearer(bearing, mode, token)}, {"stranger", bearer(7, mode)},
			} {
				who.a.listed, who.a.operator = who.name == "listed" || who.name == "operator", who.name == "operator"
				if _, fault := d.letIn(d.now, who.a); fault == nil {
					in = append(in, who.name)
					d.store()
				} else {
					require.Equal(t, protocol.ErrNotAdmitted, fault.Code)
				}
			}
			require.Equal(t, want, strings.Join(in, " "), mode.String())
			d.restart()
		}
	}
}

// An operator of the configuration cannot be kept out by one of another kind.
func TestOperatorsAreNotRevoked(t *testing.T) {
	d := newTrial(t, brokerOptions{})
	d.say(1, protocol.StandingRevoked)
	a := bearer(1, AdmitToken)
	a.listed = true
	d.staysOut(protocol.ErrNotAdmitted, a)
	a.operator = true
	d.comes(a)
}

func TestTokensAreUsedUp(t *testing.T) {
	d := newTrial(t, brokerOptions{})
	token := d.make(1, func(f *protocol.CreateToken) { f.Uses, f.Labels = 2, []string{"lab", "eu"} })
	require.Equal(t, []string{"eu", "lab"}, d.comes(bearer(1, AdmitToken, token)))
	d.comes(bearer(1, AdmitToken, token)) // comes again, and uses nothing
	d.restart()
	d.comes(bearer(2, AdmitToken, token))
	require.ErrorContains(t, d.staysOut(protocol.ErrNotAdmitted, bearer(3, AdmitToken, token)), "used up")
	d.restart()
	d.staysOut(protocol.ErrNotAdmitted, bearer(3, AdmitToken, token))
	require.Equal(t, []string{"eu", "lab"}, d.comes(bearer(1, AdmitToken))) // without it
	require.Equal(t, uint64(2), d.tokens[token.ID].Used)
	e := d.standingOf[protocol.KeyHashOf(publicKey(2))]
	require.Equal(t, protocol.KeyEntry{
		Key: e.Key, Standing: protocol.StandingAdmitted, Since: d.now, Labels: []string{"eu", "lab"}, Token: token.ID[:],
	}, e)
}

func TestTokensThatLetInNobody(t *testing.T) {
	d := newTrial(t, brokerOptions{})
	short := d.make(1, func(f *protocol.CreateToken) { f.Lifetime = time.Millisecond })
	gone := d.make(2)
	_, fault := d.revokeToken(gone.ID)
	require.Nil(t, fault)
	d.store()
	wrong := d.make(3)
	wrong.Secret[15]++
	d.now += 999_999
	d.comes(bearer(1, AdmitToken, short))
	d.now++
	for _, test := range []struct {
		token protocol.JoinToken
		why   string
	}{
		{short, "expired"}, {gone, "revoked"}, {wrong, "does not know"}, {secretToken(9), "does not know"}, {protocol.JoinToken{}, "does not know"},
	} {
		fault := d.staysOut(protocol.ErrNotAdmitted, bearer(7, AdmitToken, test.token))
		require.Contains(t, fault.Detail, test.why)
		// Where everybody is let in, a bad token is no reason to keep one out.
		require.Empty(t, d.comes(bearer(8, AdmitOpen, test.token)))
	}
	_, fault = d.revokeToken(protocol.TokenID{99})
	require.Equal(t, protocol.ErrNotFound, fault.Code)
}

// A request that is sent again makes no second token.
func TestTokensAreMadeOnce(t *testing.T) {
	d := newTrial(t, brokerOptions{})
	token := d.make(1)
	d.comes(bearer(1, AdmitToken, token))
	is, fault := d.createToken(d.now, &protocol.CreateToken{ID: 2, Token: token.ID, Hash: token.Hash(), Uses: 9})
	require.Nil(t, fault)
	require.Equal(t, uint64(1), is.Used)
	require.Nil(t, d.staged())
	_, fault = d.createToken(d.now, &protocol.CreateToken{ID: 3, Token: token.ID})
	require.Equal(t, protocol.ErrConflict, fault.Code)
}

func TestTokensAreBounded(t *testing.T) {
	d := newTrial(t, brokerOptions{maxTokens: 3})
	for n := range byte(3) {
		d.make(n, func(f *protocol.CreateToken) { f.Lifetime = time.Hour })
	}
	_, fault := d.createToken(d.now, &protocol.CreateToken{ID: 1, Token: protocol.TokenID{9}})
	require.Equal(t, protocol.ErrLimit, fault.Code)
	_, fault = d.revokeToken(protocol.TokenID{1})
	require.Nil(t, fault)
	d.store()
	d.make(9) // in the place of the one that lets in nobody
	var ids []byte
	for _, k := range d.tokenEntries(nil, 10) {
		ids = append(ids, k.ID[0])
	}
	require.Equal(t, []byte{0, 2, 9}, ids)
	require.Len(t, d.tokenEntries([]byte{2, 0, 0, 0, 0, 0, 0, 0}, 10), 1)
	require.Len(t, d.tokenEntries(nil, 2), 2)
	d.now += protocol.Time(time.Hour)
	d.make(10)
	require.Len(t, d.tokens, 2)
	d.restart()
}

func TestWhatOperatorsSayOfKeys(t *testing.T) {
	d := newTrial(t, brokerOptions{maxStandings: 2})
	key := protocol.KeyHashOf(publicKey(1))
	set := func(f protocol.SetKey) protocol.KeyEntry {
		t.Helper()
		f.ID, f.Key = 1, key
		d.now++
		e, fault := d.setKey(d.now, &f)
		require.Nil(t, fault)
		d.store()
		_, fault = d.setKey(d.now+1, &f)
		require.Nil(t, fault)
		require.Nil(t, d.staged(), "said again")
		return e
	}
	e := set(protocol.SetKey{Keep: true, Add: []string{"b", "a", "b"}})
	require.Equal(t, protocol.KeyEntry{Key: key, Labels: []string{"a", "b"}}, e)
	require.True(t, d.vouchedFor(key))
	e = set(protocol.SetKey{Standing: protocol.StandingRevoked, Drop: []string{"a", "x"}})
	require.Equal(t, protocol.KeyEntry{Key: key, Standing: protocol.StandingRevoked, Since: 1002, Labels: []string{"b"}}, e)
	require.False(t, d.vouchedFor(key))
	d.restart()
	require.True(t, d.revoked(key))

	d.say(2, protocol.StandingAdmitted)
	_, fault := d.setKey(d.now, &protocol.SetKey{ID: 1, Key: protocol.KeyHash{3}, Standing: protocol.StandingRevoked})
	require.Equal(t, protocol.ErrLimit, fault.Code)
	require.Len(t, d.keyEntries(nil, 10), 2)
	require.Len(t, d.keyEntries(nil, 1), 1)
	require.Len(t, d.keyEntries(d.judged[0][:], 10), 1)

	e = set(protocol.SetKey{Drop: []string{"b"}}) // nothing is left to say
	require.Equal(t, protocol.KeyEntry{Key: key, Since: 1003, Labels: []string{}}, e)
	require.Len(t, d.keyEntries(nil, 10), 1)
	d.restart()
	require.Len(t, d.keyEntries(nil, 10), 1)

	many := make([]string, protocol.MaxLabels)
	for i := range many {
		many[i] = fmt.Sprint("l", i)
	}
	set(protocol.SetKey{Add: many})
	_, fault = d.setKey(d.now, &protocol.SetKey{ID: 1, Key: key, Add: []string{"more"}})
	require.Equal(t, protocol.ErrLimit, fault.Code)
}

// Where everybody is let in, strangers that did nothing make room; whoever has
// something here stays.
func TestIdleStrangersMakeRoom(t *testing.T) {
	d := newTrial(t, brokerOptions{maxNodes: 6})
	ids := make(map[byte]protocol.NodeID)
	for n := byte(1); n <= 6; n++ {
		d.now++
		d.comes(bearer(n, AdmitOpen))
		ids[n] = protocol.NodeIDOf(publicKey(n))
	}
	d.accepted(ids[1], "t")
	require.Nil(t, d.join(d.now, ids[2], []string{"t"}, false))
	d.store()
	d.say(3, protocol.StandingNone, "lab")
	_, fault := d.letIn(d.now, bearer(4, AdmitOpen)) // is there
	require.Nil(t, fault)
	d.store()

	listed := bearer(7, AdmitKnown)
	listed.listed = true
	d.staysOut(protocol.ErrLimit, listed)
	d.now++
	d.comes(bearer(7, AdmitOpen)) // in the place of 5, the longest away
	require.NotContains(t, d.nodesByID, ids[5])
	d.restart()
	require.NotContains(t, d.nodesByID, ids[5])
	d.now++
	_, fault = d.letIn(d.now, bearer(4, AdmitOpen))
	require.Nil(t, fault)
	d.comes(bearer(8, AdmitOpen)) // of 6
	for _, n := range []byte{7, 8} {
		d.accepted(protocol.NodeIDOf(publicKey(n)), "t")
	}
	crowded := func() {
		t.Helper()
		_, fault := d.letIn(d.now, bearer(9, AdmitOpen))
		require.NotNil(t, fault)
		require.Equal(t, protocol.ErrLimit, fault.Code)
		require.Nil(t, d.staged())
	}
	crowded()

	operator := bearer(10, AdmitOpen)
	operator.operator = true
	d.comes(operator)

	// Nobody is looked for again at once, and then somebody is found.
	d.leave(d.now, ids[4])
	d.store()
	crowded()
	d.now += evictPause
	d.comes(bearer(9, AdmitOpen))
	require.NotContains(t, d.nodesByID, ids[4])
}

func TestForgettingANode(t *testing.T) {
	d := newTrial(t, brokerOptions{})
	empty := dump(d.broker)
	id := protocol.NodeIDOf(publicKey(1))
	d.say(1, protocol.StandingAdmitted, "lab")
	_, fault := d.letIn(d.now, bearer(1, AdmitKnown))
	require.Nil(t, fault)
	require.Equal(t, protocol.ErrConflict, d.forgetNode(id).Code)
	require.Equal(t, protocol.ErrNotFound, d.forgetNode(id+1).Code)
	d.leave(d.now, id)
	require.Nil(t, d.join(d.now, id, []string{"a", "config:x"}, false))
	d.accepted(id, "a")
	d.clearInbox(id, 1)
	d.store()
	full := dump(d.broker)

	require.Nil(t, d.forgetNode(id))
	d.abort()
	require.Equal(t, full, dump(d.broker))

	require.Nil(t, d.forgetNode(id))
	d.store()
	for range 2 {
		now := dump(d.broker)
		now.Seq, now.Time, now.Keys = empty.Seq, empty.Time, empty.Keys
		require.Equal(t, fmt.Sprint(empty), fmt.Sprint(now))
		d.restart()
	}
	d.staysOut(protocol.ErrNotAdmitted, bearer(1, AdmitKnown))

	// A revocation stays.
	d.comes(bearer(2, AdmitOpen))
	d.say(2, protocol.StandingRevoked)
	require.Nil(t, d.forgetNode(protocol.NodeIDOf(publicKey(2))))
	d.store()
	d.staysOut(protocol.ErrNotAdmitted, bearer(2, AdmitOpen))
}

func TestSparedFencesAreForNodesThatAreVouchedFor(t *testing.T) {
	listed := map[protocol.KeyHash]struct{}{protocol.KeyHashOf(publicKey(3)): {}}
	d := newTrial(t, brokerOptions{maxFences: 4, spared: 2, listed: listed})
	var ids [4]protocol.NodeID
	for n := byte(1); n <= 3; n++ {
		d.comes(bearer(n, AdmitOpen))
		ids[n] = protocol.NodeIDOf(publicKey(n))
	}
	d.say(2, protocol.StandingAdmitted)
	d.accepted(ids[1], "a", raising("a", 1, 1))
	d.accepted(ids[1], "b", raising("b", 1, 1))
	d.refused(protocol.ErrLimit, ids[1], "c", raising("c", 1, 1))
	d.refused(protocol.ErrLimit, 99, "c", raising("c", 1, 1)) // never here
	d.accepted(ids[2], "c", raising("c", 1, 1))
	d.accepted(ids[3], "d", raising("d", 1, 1))
	d.refused(protocol.ErrLimit, ids[3], "e", raising("e", 1, 1))
}
