package registry

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
)

// archive is a trial as a log that retains messages for a day, and what config
// versions there are.
type archive struct{ *trial }

func (a archive) Retained(id protocol.NodeID) (last protocol.Time, waiting bool) {
	for _, r := range a.records {
		if since(a.now, r.Time) >= protocol.Time(24*time.Hour) && !HasVersions(r.Topic) {
			continue
		}
		if r.Sender == id {
			last = r.Time
		}
		waiting = waiting || r.To == id
	}
	return last, waiting
}

// archived is a trial whose broker knows what the log retains.
func archived(t *testing.T, opts brokerOptions) *trial {
	d := newTrial(t, opts)
	d.now = protocol.Time(30 * 24 * time.Hour)
	d.opts.log = archive{d}
	d.restart()
	return d
}

func (d *trial) pass(span time.Duration) { d.now += protocol.Time(span) }

func toNode(id protocol.NodeID) func(*protocol.Publish) {
	return func(p *protocol.Publish) { p.Topic, p.To = "", id }
}

func idOf(n byte) protocol.NodeID { return protocol.NodeIDOf(publicKey(n)) }

// gone lets in one stranger more and tells who of the first five went for it.
func (d *trial) gone(stranger byte) (list []byte) {
	d.t.Helper()
	d.comes(bearer(stranger, AdmitOpen))
	for i := byte(1); i <= 5; i++ {
		if _, here := d.nodesByID[idOf(i)]; !here {
			list = append(list, i)
		}
	}
	return list
}

// Who published has its place while that is retained, who joined while it comes
// at least once a week, and whoever has nothing goes first.
func TestWhoMakesRoomFirst(t *testing.T) {
	d := archived(t, brokerOptions{maxNodes: 5})
	for n := byte(1); n <= 5; n++ {
		d.comes(bearer(n, AdmitOpen))
		d.pass(time.Second)
	}
	d.accepted(idOf(1), "t")
	d.accepted(idOf(2), "config:t") // retained for ever
	require.Nil(t, d.join(d.now, idOf(3), []string{"t"}, false))
	d.accepted(idOf(5), "", toNode(idOf(4)))
	d.store()
	fault := d.staysOut(protocol.ErrLimit, bearer(6, AdmitOpen))
	require.Positive(t, fault.RetryAfter)

	d.pass(24 * time.Hour)
	require.Equal(t, []byte{1}, d.gone(6))
	d.restart()
	require.Equal(t, []byte{1, 4}, d.gone(7), "nothing waits for it any more")
	require.Equal(t, []byte{1, 4, 5}, d.gone(8))
	d.pass(6*24*time.Hour - time.Minute)
	require.Equal(t, []byte{1, 4, 5}, d.gone(9))
	for n := byte(6); n <= 9; n++ {
		if d.wasHere(publicKey(n)) {
			d.accepted(idOf(n), "t")
		}
	}
	d.staysOut(protocol.ErrLimit, bearer(10, AdmitOpen))
	d.pass(time.Minute)
	require.Equal(t, []byte{1, 3, 4, 5}, d.gone(10))
	d.accepted(idOf(10), "t")
	d.pass(time.Duration(evictPause))
	require.Equal(t, []byte{1, 2, 3, 4, 5}, d.gone(11))
	d.restart()
	require.Len(t, d.nodesByID, 5)
}

// Messages that are not stored yet count too.
func TestPartiesOfTheBatchAtHandStay(t *testing.T) {
	d := archived(t, brokerOptions{maxNodes: 2})
	d.comes(bearer(1, AdmitOpen))
	d.comes(bearer(2, AdmitOpen))
	require.Nil(t, d.put(idOf(1), "", toNode(idOf(2))).Refuse)
	for range 2 {
		_, fault := d.letIn(d.now, bearer(3, AdmitOpen))
		require.NotNil(t, fault)
		require.Equal(t, protocol.ErrLimit, fault.Code)
		d.seal()
		d.pass(time.Duration(evictPause))
	}
	d.fail()
	d.pass(time.Duration(evictPause))
	d.comes(bearer(3, AdmitOpen))
}

// What an operator has named is there whatever strangers do, and finds room.
func TestStrangersDoNotTakeTheLastQuarter(t *testing.T) {
	listed := map[protocol.KeyHash]struct{}{protocol.KeyHashOf(publicKey(1)): {}}
	d := archived(t, brokerOptions{maxNodes: 8, sparedNodes: 2, listed: listed})
	token := d.make(1)
	d.say(3, protocol.StandingAdmitted)
	d.comes(bearer(1, AdmitOpen))
	for n := byte(10); n < 20; n++ {
		a := bearer(n, AdmitOpen)
		if len(d.nodesByID) == 6 {
			d.staysOut(protocol.ErrLimit, a)
			continue
		}
		d.comes(a)
		d.accepted(idOf(n), "t")
	}
	d.comes(bearer(2, AdmitOpen, token))
	d.comes(bearer(3, AdmitOpen))
	require.Len(t, d.nodesByID, 8)
	d.say(4, protocol.StandingNone, "lab")
	d.staysOut(protocol.ErrLimit, bearer(4, AdmitOpen))
	d.pass(30 * 24 * time.Hour)
	d.comes(bearer(4, AdmitOpen)) // in the place of a stranger
	for n := byte(1); n <= 4; n++ {
		require.True(t, d.wasHere(publicKey(n)), n)
	}
}

// A registry of a shared log does not know who is at another one.
func TestNodesThatMayBeElsewhereStay(t *testing.T) {
	d := archived(t, brokerOptions{maxNodes: 1, presence: presenceDoubt})
	d.comes(bearer(1, AdmitOpen))
	d.pass(time.Duration(presenceDoubt) - 1)
	d.staysOut(protocol.ErrLimit, bearer(2, AdmitOpen))
	d.pass(time.Duration(evictPause))
	d.comes(bearer(2, AdmitOpen))
}

func TestThoseHereAreNotedAsSeen(t *testing.T) {
	d := newTrial(t, brokerOptions{})
	for n := byte(1); n <= 7; n++ {
		_, fault := d.letIn(d.now, bearer(n, AdmitOpen))
		require.Nil(t, fault)
	}
	d.leave(d.now, idOf(3))
	d.store()
	was := d.now
	d.pass(presenceEvery)
	pages := 0
	for after := protocol.NodeID(0); pages == 0 || after != 0; pages++ {
		after = d.here(d.now, after, 3)
	}
	require.Equal(t, 3, pages)
	d.store()
	d.restart()
	for n := byte(1); n <= 7; n++ {
		want := d.now
		if n == 3 {
			want = was
		}
		require.Equal(t, want, d.nodesByID[idOf(n)].LastSeen, n)
	}
	require.Zero(t, d.here(d.now, 0, 100))
	require.Nil(t, d.staged(), "nobody has a session")
}

// flood is an attack with thrice as many keys as there is room for, under which
// those that were there before come and go.
type flood struct {
	*trial
	chance *rand.Rand
	next   uint32
	in     int
	out    int
}

func (f *flood) key() []byte {
	f.next++
	return binary.BigEndian.AppendUint32(make([]byte, 28), f.next)
}

func (f *flood) throwaway(does func(protocol.NodeID)) {
	key := f.key()
	a := &applicant{key: key, hash: protocol.KeyHashOf(key), mode: AdmitOpen}
	_, fault := f.letIn(f.now, a)
	if fault != nil {
		require.Equal(f.t, protocol.ErrLimit, fault.Code)
		require.Positive(f.t, fault.RetryAfter)
		require.Nil(f.t, f.staged())
		f.out++
		return
	}
	f.in++
	id := protocol.NodeIDOf(key)
	does(id)
	f.leave(f.now, id)
	f.store()
}

func TestAFloodOfKeysEnds(t *testing.T) {
	const most, spared = 200, 50
	for name, does := range map[string]func(*flood, protocol.NodeID){
		"nothing":   func(*flood, protocol.NodeID) {},
		"publishes": func(f *flood, id protocol.NodeID) { f.accepted(id, "t") },
		"versions":  func(f *flood, id protocol.NodeID) { f.accepted(id, "config:t") },
		"joins":     func(f *flood, id protocol.NodeID) { _ = f.join(f.now, id, []string{"t"}, false) },
		"clears":    func(f *flood, id protocol.NodeID) { f.clearInbox(id, 1) },
		"itself":    func(f *flood, id protocol.NodeID) { f.accepted(id, "", toNode(id)) },
		"anything": func(f *flood, id protocol.NodeID) {
			switch f.chance.IntN(5) {
			case 0:
				f.accepted(id, "t")
			case 1:
				f.accepted(id, "config:t")
			case 2:
				_ = f.join(f.now, id, []string{"t", "config:u"}, false)
			case 3:
				f.accepted(id, "", toNode(id))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := &flood{trial: archived(t, brokerOptions{maxNodes: most, sparedNodes: spared}), chance: rand.New(rand.NewPCG(1, 2))}
			f.say(1, protocol.StandingAdmitted)
			f.say(2, protocol.StandingNone, "lab")
			f.comes(bearer(1, AdmitOpen))
			f.comes(bearer(2, AdmitOpen))
			_, fault := f.letIn(f.now, bearer(3, AdmitOpen)) // a stranger that is here
			require.Nil(t, fault)
			f.comes(bearer(4, AdmitOpen)) // one that published
			f.accepted(idOf(4), "t")
			f.comes(bearer(5, AdmitOpen)) // one that reads
			require.Nil(t, f.join(f.now, idOf(5), []string{"jobs"}, false))
			f.comes(bearer(6, AdmitOpen)) // one that comes and goes
			f.store()

			for i := range 3 * most {
				f.pass(time.Second)
				f.throwaway(func(id protocol.NodeID) { does(f, id) })
				require.LessOrEqual(t, len(f.nodesByID), most-spared)
				if i%20 == 0 {
					f.comes(bearer(6, AdmitOpen)) // always finds its place
				}
				for n := byte(1); n <= 6; n++ {
					require.True(t, f.wasHere(publicKey(n)), "key %d after %d", n, i)
				}
			}
			t.Logf("let in %d, refused %d", f.in, f.out)
			if name == "nothing" || name == "clears" {
				require.Zero(t, f.out)
			}

			// Whoever comes a week later finds room, and so do many.
			f.pass(time.Duration(strangersKept))
			f.out = 0
			for range most / 2 {
				f.pass(time.Second)
				f.throwaway(func(id protocol.NodeID) {})
			}
			require.Zero(t, f.out)
			for n := byte(1); n <= 3; n++ {
				require.True(t, f.wasHere(publicKey(n)), n)
			}
			f.leave(f.now, idOf(3))
			f.store()
			was := dump(f.broker)
			f.restart()
			require.Equal(t, fmt.Sprint(was), fmt.Sprint(dump(f.broker)))
		})
	}
}

// Neither a walk that finds nobody nor a crowd of joins makes much work.
func TestOneStepForgetsNotTooMuch(t *testing.T) {
	d := archived(t, brokerOptions{maxNodes: 1000})
	for n := range byte(6) {
		d.comes(bearer(n, AdmitOpen))
		for i := range 9000 {
			require.Nil(t, d.join(d.now, idOf(n), []string{fmt.Sprint("t", i)}, false))
		}
		d.store()
	}
	d.pass(time.Duration(strangersKept))
	require.True(t, d.evict(d.now))
	require.Len(t, d.nodesByID, 3)
	d.abort()
	require.Len(t, d.nodesByID, 6)
	require.Len(t, d.joined(idOf(5), "", 0), 9000)
}

// mirror follows what another registry of a shared log stores.
func (w *walk) mirror() {
	w.seal()
	for _, s := range w.sealed {
		require.NoError(w.t, w.there.apply(&s.Batch))
	}
}

func (w *walk) sameThere() {
	require.Equal(w.t, slices.Sorted(maps.Keys(w.nodesByID)), slices.Sorted(maps.Keys(w.there.nodesByID)))
	here, there := dump(w.broker), dump(w.there)
	require.Equal(w.t, fmt.Sprint(here.Joined, here.Cursors, here.Spoken), fmt.Sprint(there.Joined, there.Cursors, there.Spoken))
}
