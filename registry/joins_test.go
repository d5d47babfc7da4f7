package registry

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
)

func TestJoinAndLeave(t *testing.T) {
	d := newTrial(t, brokerOptions{})
	require.Nil(t, d.join(d.now, 1, []string{"c", "a", "b", "a"}, false))
	require.Nil(t, d.join(d.now, 2, []string{"b"}, false))
	require.Equal(t, []string{"a", "b", "c"}, d.joined(1, "", 0))
	require.Len(t, d.staged().Entries, 4)
	d.store()

	require.Nil(t, d.join(d.now, 1, []string{"b"}, false))
	require.Nil(t, d.staged(), "joined already")
	require.Nil(t, d.join(d.now, 1, []string{"b", "never"}, true))
	require.Len(t, d.staged().Entries, 1)
	d.store()
	for range 2 {
		require.Equal(t, []string{"a", "c"}, d.joined(1, "", 0))
		require.Equal(t, []string{"b"}, d.joined(2, "", 0))
		require.Empty(t, d.joined(3, "", 0))
		require.Equal(t, []protocol.NodeID{2}, d.joinedBy["b"])
		require.Equal(t, []protocol.NodeID{1}, d.joinedBy["a"])
		require.Empty(t, d.joinedBy["d"])
		d.restart()
	}
}

func TestJoinedPages(t *testing.T) {
	d := newTrial(t, brokerOptions{})
	require.Nil(t, d.join(d.now, 1, []string{"a", "b", "c", "d"}, false))
	for _, test := range []struct {
		after string
		limit int
		want  []string
	}{
		{"", 2, []string{"a", "b"}},
		{"b", 2, []string{"c", "d"}},
		{"bb", 1, []string{"c"}},
		{"", 9, []string{"a", "b", "c", "d"}},
		{"c", 0, []string{"d"}},
		{"d", 3, []string{}},
	} {
		require.Equal(t, test.want, d.joined(1, test.after, test.limit), "%d after %q", test.limit, test.after)
	}
	page := d.joined(1, "", 2)
	page[0] = "z"
	require.True(t, d.hasJoined(1, "a"), "the page is the caller's")
}

func TestJoiningAConfigJoinsItsStatus(t *testing.T) {
	for _, test := range []struct {
		topic string
		want  []string
	}{
		{"config:fleet", []string{"config:fleet", "config:status:fleet"}},
		{"config:status:fleet", []string{"config:status:fleet"}},
		{"config:", []string{"config:"}},
		{"config:a:b", []string{"config:a:b"}},
		{"config.fleet", []string{"config.fleet"}},
		{"config:status", []string{"config:status", "config:status:status"}},
		{"config:" + strings.Repeat("x", 1015), []string{"config:" + strings.Repeat("x", 1015)}}, // no room for the other
	} {
		d := newTrial(t, brokerOptions{})
		require.Nil(t, d.join(d.now, 1, []string{test.topic}, false))
		require.ElementsMatch(t, test.want, d.joined(1, "", 0))
		require.Nil(t, d.join(d.now, 1, []string{test.topic}, true))
		require.Empty(t, d.joined(1, "", 0))
	}
}

func TestJoinsAreAllOrNone(t *testing.T) {
	d := newTrial(t, brokerOptions{maxJoins: 3})
	for _, test := range []struct {
		topics []string
		want   protocol.Code
	}{
		{[]string{"a", "b", "c", "d"}, protocol.ErrLimit},
		{[]string{"a", "b", "config:x"}, protocol.ErrLimit},
		{[]string{"a", "b.*"}, protocol.ErrInvalidTopic},
		{[]string{"a", ""}, protocol.ErrInvalidTopic},
		{[]string{"$inbox"}, protocol.ErrInvalidTopic},
	} {
		fault := d.join(d.now, 1, test.topics, false)
		require.NotNil(t, fault, "%v", test.topics)
		require.Equal(t, test.want, fault.Code)
		require.Nil(t, d.staged())
	}
	require.Nil(t, d.join(d.now, 1, []string{"a", "config:x"}, false))
	require.Nil(t, d.join(d.now, 2, []string{"a", "b", "c"}, false)) // each node has its own bound
	require.NotNil(t, d.join(d.now, 1, []string{"b"}, false))
	require.Nil(t, d.join(d.now, 1, []string{"a"}, true))
	require.Nil(t, d.join(d.now, 1, []string{"b"}, false))
}

func TestPublishThatJoins(t *testing.T) {
	d := newTrial(t, brokerOptions{maxJoins: 1})
	d.accepted(1, "a", alsoJoin, withKey("k"))
	require.Equal(t, []string{"a"}, d.joined(1, "", 0))
	d.accepted(1, "b")
	d.accepted(1, "", direct(2), alsoJoin)
	require.Equal(t, []string{"a"}, d.joined(1, "", 0))

	// A refused publish joins nothing, and a join that cannot be had refuses.
	d.refused(protocol.ErrStaleTerm, 2, "a", alsoJoin, fenced("g", 1))
	d.refused(protocol.ErrLimit, 1, "b", alsoJoin)

	// A duplicate joins too: the caller may have left meanwhile.
	require.Nil(t, d.join(d.now, 1, []string{"a"}, true))
	d.store()
	duplicate(t, d.put(1, "a", alsoJoin, withKey("k")), 1, 1000)
	require.Equal(t, []string{"a"}, d.joined(1, "", 0))
	require.Len(t, d.staged().Entries, 1)
	d.store()
	// But where it cannot, the message is in the log all the same.
	require.Nil(t, d.join(d.now, 1, []string{"a"}, true))
	require.Nil(t, d.join(d.now, 1, []string{"z"}, false))
	duplicate(t, d.put(1, "a", alsoJoin, withKey("k")), 1, 1000)
}

func TestJoinedSetIsNeverChanged(t *testing.T) {
	d := newTrial(t, brokerOptions{})
	require.Nil(t, d.joinedSet(1))
	var sets []map[string]struct{}
	for i := range 5 {
		require.Nil(t, d.join(d.now, 1, []string{fmt.Sprint(i)}, false))
		set := d.joinedSet(1)
		require.Equal(t, d.joined(1, "", 0), slices.Sorted(maps.Keys(set)))
		sets = append(sets, set)
	}
	require.Nil(t, d.join(d.now, 1, []string{"0"}, true))
	d.abort()
	for i, set := range sets {
		require.Len(t, set, i+1)
	}
	require.Empty(t, d.joinedSet(1))
}

func TestInboxCursorOnlyGoesForward(t *testing.T) {
	d := newTrial(t, brokerOptions{})
	for range 5 {
		d.accepted(1, "a")
	}
	require.Zero(t, d.cursor(1))
	d.clearInbox(1, 3)
	require.Equal(t, protocol.Seq(3), d.cursor(1))
	d.clearInbox(1, 2)
	require.Equal(t, protocol.Seq(3), d.cursor(1))
	d.clearInbox(1, 99) // not what is still to come
	require.Equal(t, protocol.Seq(5), d.cursor(1))
	require.Zero(t, d.cursor(2))
	d.store()
	d.restart()
	require.Equal(t, protocol.Seq(5), d.cursor(1))
}

// Whoever has no topics and no cursor any more takes no memory either, and undone
// changes take none.
func TestAnInboxThatIsEmptyIsForgotten(t *testing.T) {
	d := newTrial(t, brokerOptions{maxNodes: 1})
	d.comes(bearer(1, AdmitOpen))
	id := protocol.NodeIDOf(publicKey(1))
	d.accepted(99, "a")
	d.clearInbox(id, 0)
	require.NotContains(t, d.byNode, id)

	require.Nil(t, d.join(d.now, id, []string{"a", "b"}, false))
	d.clearInbox(id, 1)
	d.abort()
	require.NotContains(t, d.byNode, id)

	require.Nil(t, d.join(d.now, id, []string{"a", "b"}, false))
	require.Nil(t, d.join(d.now, id, []string{"a", "b"}, true))
	d.store()
	require.NotContains(t, d.byNode, id)

	d.clearInbox(id, 1)
	d.leave(d.now, id)
	d.store()
	require.Contains(t, d.byNode, id)
	d.comes(bearer(2, AdmitOpen)) // in its place
	require.NotContains(t, d.byNode, id)
}

// pager is a log of which only ReadNewest is asked.
type pager struct {
	Log
	head, scanned    protocol.Seq
	after            protocol.Seq
	newest, perTopic int
	sel              Selection
}

func (l *pager) Head() (protocol.Seq, protocol.Time) { return l.head, 0 }

func (l *pager) ReadNewest(sel *Selection, after protocol.Seq, newest, perTopic int, p *Page) error {
	l.sel, l.after, l.newest, l.perTopic, p.Scanned = *sel, after, newest, perTopic, l.scanned
	return nil
}

func TestInboxPage(t *testing.T) {
	joined := map[string]struct{}{"a": {}}
	l := &pager{head: 10, scanned: 7}
	next, err := inboxPage(l, joined, 5, 3, 0, &Page{})
	require.NoError(t, err)
	require.Equal(t, protocol.Seq(7), next)
	require.Equal(t, &pager{head: 10, scanned: 7, after: 3, newest: 10_000, perTopic: 100, sel: Selection{Topics: joined, Direct: 5}}, l)

	l.scanned = 10
	next, err = inboxPage(l, joined, 5, 7, 20, &Page{})
	require.NoError(t, err)
	require.Zero(t, next, "the last page")
	require.Equal(t, 20, l.newest)
}

// Inboxes together are bounded too. Where everybody is let in, strangers do not take
// the last quarter, and their joins do not stay for good.
func TestAllInboxesAreBounded(t *testing.T) {
	d := archived(t, brokerOptions{maxAllJoins: 8, sparedJoins: 2})
	d.say(9, protocol.StandingAdmitted)
	for _, n := range []byte{1, 2, 3, 9} {
		d.comes(bearer(n, AdmitOpen))
	}
	join := func(n byte, topics ...string) *protocol.Error {
		fault := d.join(d.now, idOf(n), topics, false)
		d.store()
		return fault
	}
	require.Nil(t, join(1, "a", "b", "config:c"))
	require.Nil(t, join(2, "a", "b"))
	require.Nil(t, join(2, "a", "b"))
	for range 2 {
		fault := join(3, "a")
		require.NotNil(t, fault)
		require.Equal(t, protocol.ErrLimit, fault.Code)
		d.restart()
	}
	require.Nil(t, join(9, "a", "b"))
	require.Equal(t, protocol.ErrLimit, join(9, "c").Code)
	require.Nil(t, d.join(d.now, idOf(2), []string{"b"}, true))
	require.Nil(t, join(9, "c"))

	// Nobody has published, so registry time has not gone on.
	d.pass(time.Duration(strangersKept))
	_, fault := d.letIn(d.now, bearer(3, AdmitOpen))
	require.Nil(t, fault)
	require.Nil(t, join(3, "a", "b"))
	require.False(t, d.wasHere(publicKey(1)))
	require.Len(t, d.joined(idOf(9), "", 0), 3)
	d.restart()
	require.Len(t, d.joined(idOf(3), "", 0), 2)
}
