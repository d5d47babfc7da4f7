package retained

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// note is a message without anything else.
type note struct {
	seq   protocol.Seq
	topic string
	to    protocol.NodeID
}

func (n *note) Key() protocol.Seq                { return n.seq }
func (n *note) At() protocol.Time                { return protocol.Time(10 * n.seq) }
func (n *note) Size() int                        { return 1 }
func (n *note) Place() (string, protocol.NodeID) { return n.topic, n.to }

type notes struct {
	View[*note, struct{}]
}

func newNotes() *notes { return &notes{NewView[*note, struct{}]()} }

func (v *notes) publish(topic string, to protocol.NodeID) {
	v.Head++
	s := v.Stream(topic, to)
	if s == nil {
		s = NewStream[*note, struct{}](topic, to)
		v.Enter(s)
	}
	v.Put(s, &note{v.Head, topic, to})
}

// evict takes the message with a seq, if it is there.
func (v *notes) evict(seq protocol.Seq) {
	if x, ok := v.All.At(v.All.From(seq)); ok && x.seq == seq {
		s := v.Stream(x.Place())
		v.Remove(s, x)
		v.Mark(s, seq)
	}
}

// page is a read that notes what it takes.
type page struct {
	Reading[*note]
	seqs []protocol.Seq
}

func (p *page) Take(block []*note) int {
	for i, x := range block {
		if !p.Room(x.seq, x.Size()) {
			return i
		}
		p.seqs = append(p.seqs, x.seq)
	}
	return len(block)
}

// read is all that a read chooses in pages of a size.
func (v *notes) read(sel *registry.Selection, after protocol.Seq, most int) []protocol.Seq {
	var p page
	for after < v.Head {
		to := registry.Page{MaxRecords: most}
		p.Start(&p, sel, after, &to)
		v.Limit(&p.Reading, v.Head)
		for v.Choose(&p.Reading) {
		}
		v.Finish(&p.Reading)
		after = to.Scanned
		p.Reset()
	}
	return p.seqs
}

// Whichever way a selection is read, it is what a look at each message finds.
func TestChooseIsALookAtEach(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	v := newNotes()
	for range 6000 {
		switch rng.IntN(10) {
		case 0:
			v.publish("", protocol.NodeID(1+rng.IntN(3)))
		case 1:
			v.publish(fmt.Sprint("wide.", rng.IntN(2*mergeMost)), 0)
		default:
			v.publish(fmt.Sprint("a.", rng.IntN(9)), 0)
		}
		if rng.IntN(3) == 0 {
			v.evict(protocol.Seq(rng.IntN(int(v.Head))))
		}
	}
	odd := func(topic string) bool { return !strings.HasSuffix(topic, "2") }
	topics := map[string]struct{}{"a.1": {}, "a.2": {}, "none": {}}
	for _, sel := range []*registry.Selection{
		{Pattern: "a.3"}, {Pattern: "none"}, {Pattern: "a.*"}, {Pattern: "wide.*"}, {Pattern: "*"},
		{Pattern: "a.2", Readable: odd}, {Pattern: "a.*", Readable: odd}, {Pattern: "*", Readable: odd},
		{Topics: topics, Direct: 1}, {Topics: topics, Pattern: "a.*", Direct: 2}, {Topics: topics, Readable: odd},
		{Pattern: "*", LastPerTopic: true}, {Pattern: "a.*", LastPerTopic: true, Direct: 3},
		{Pattern: "a.*", Since: 30_000}, {Topics: topics, Direct: 1, Since: 59_000}, {Pattern: "*", Since: 1e9},
	} {
		for _, after := range []protocol.Seq{0, 3000, v.Head - scanFew, v.Head} {
			want := v.look(sel, after)
			for _, most := range []int{0, 7} {
				require.Equal(t, want, v.read(sel, after, most), "%+v behind %d, %d at a time", sel, after, most)
			}
		}
	}
}

// look is read by a look at each message.
func (v *notes) look(sel *registry.Selection, after protocol.Seq) []protocol.Seq {
	var found []*note
	for x := range v.All.All() {
		_, named := sel.Topics[x.topic]
		match := named || sel.Pattern != "" && protocol.Match(sel.Pattern, x.topic)
		switch {
		case x.to != 0 && x.to != sel.Direct, x.to == 0 && !match:
		case x.to == 0 && sel.Readable != nil && !sel.Readable(x.topic):
		default:
			found = append(found, x)
		}
	}
	if sel.LastPerTopic {
		last := make(map[string]*note)
		for _, x := range found {
			last[fmt.Sprint(x.to, x.topic)] = x
		}
		found = slices.SortedFunc(maps.Values(last), func(a, b *note) int { return int(a.seq) - int(b.seq) })
	}
	var seqs []protocol.Seq
	for _, x := range found {
		if x.seq > after && x.At() >= sel.Since {
			seqs = append(seqs, x.seq)
		}
	}
	return seqs
}

// The newest of all, and the newest of each topic.
func TestChooseNewestIsALookAtEach(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 1))
	sel := &registry.Selection{Topics: map[string]struct{}{"a": {}, "b": {}, "c": {}}, Direct: 1}
	for range 300 {
		v := newNotes()
		for range rng.IntN(60) {
			v.publish([]string{"a", "a", "a", "b", "other"}[rng.IntN(5)], 0)
			if rng.IntN(9) == 0 {
				v.publish("", 1)
			}
		}
		newest, each, after := 1+rng.IntN(20), rng.IntN(5), protocol.Seq(rng.IntN(20))
		all := v.look(sel, after)
		var want []protocol.Seq
		left := make(map[string]int)
		for i, seq := range slices.Backward(all) {
			x, _ := v.All.At(v.All.From(seq))
			if left[x.topic]++; len(all)-i <= newest || left[x.topic] <= each {
				want = append(want, seq)
			}
		}
		slices.Reverse(want)

		var p page
		var to registry.Page
		p.Start(&p, sel, after, &to)
		v.Limit(&p.Reading, v.Head)
		v.ChooseNewest(&p.Reading, newest, each)
		v.Finish(&p.Reading)
		require.Equal(t, want, p.seqs)
		require.Equal(t, len(want) < len(all), to.Truncated)
	}
}

// The mark of a prefix with more topics than are compared is that of the log.
func TestMarkOfAWidePrefix(t *testing.T) {
	v := newNotes()
	for i := range markMost + 1 {
		v.publish(fmt.Sprint("wide.", i), 0)
	}
	v.publish("narrow.1", 0)
	v.publish("other", 0)
	v.evict(v.Head)
	mark := func(pattern string) protocol.Seq { return v.MarkOf(&registry.Selection{Pattern: pattern}, 0) }
	require.Zero(t, mark("narrow.*"))
	require.Equal(t, v.Head, mark("other"))
	require.Equal(t, v.Head, mark("wide.*"))
	require.Zero(t, v.MarkOf(&registry.Selection{Pattern: "*"}, v.Head), "a reader at the head is told of none")
}

// A stream that is not kept is marked as all of those are, and is not found.
func TestAStreamThatLeaves(t *testing.T) {
	v := newNotes()
	v.publish("a.1", 0)
	v.publish("a.2", 0)
	v.publish("", 7)
	v.evict(1)
	v.evict(3)
	require.Equal(t, registry.LogStats{Topics: 1, Messages: 1, Bytes: 1}, v.Stats())
	require.Equal(t, []registry.TopicStats{{Topic: "a.2", Messages: 1, Bytes: 1, First: 2, Last: 2}}, v.TopicsPage("", 0))
	require.Len(t, slices.Collect(v.Streams()), 3)
	v.Forgotten = 3
	v.Leave(v.Stream("a.1", 0))
	v.Leave(v.Stream("", 7))
	require.Len(t, slices.Collect(v.Streams()), 1)
	require.Equal(t, 1, v.names.Len())
	for _, sel := range []*registry.Selection{{Pattern: "a.*"}, {Direct: 7}} {
		require.EqualValues(t, 3, v.MarkOf(sel, 0), "%+v", sel)
	}
	require.Zero(t, v.TopicStats("a.1").Messages)
	require.Equal(t, protocol.Seq(2), v.TopicStats("a.2").Last)
}
