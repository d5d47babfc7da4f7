package registry

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
)

// Whatever is done about keys, tokens and nodes, in whatever order: what is not
// stored is taken back whole, and what is stored is there after a restart.
func TestAdmissionIsStoredWholeOrNotAtAll(t *testing.T) {
	did := make(map[string]int)
	for seed := range uint64(40) {
		w := walk{
			trial:  archived(t, brokerOptions{maxNodes: 6, sparedNodes: 1, maxTokens: 4, maxStandings: 8}),
			there:  newBroker(protocol.Epoch{ID: thisEpoch}, brokerOptions{}),
			chance: rand.New(rand.NewPCG(seed, 1)), did: did,
		}
		for range 60 {
			w.batch()
		}
	}
	for _, what := range []string{"in", "out", "by token", "evicted", "leave", "publish", "join", "set", "create", "revoke", "forget", "kept", "restart", "abort", "fail"} {
		require.Positive(t, did[what], "never tried: %s of %v", what, did)
	}
}

type walk struct {
	*trial
	there  *broker // another registry of the log
	chance *rand.Rand
	did    map[string]int
	stored string // all that was known after the last store
}

func (w *walk) key() byte { return byte(1 + w.chance.IntN(12)) }

// batch does some things in one step, and stores it or not.
func (w *walk) batch() {
	before := dump(w.broker)
	for range 1 + w.chance.IntN(4) {
		w.now += protocol.Time(w.chance.IntN(3)) * protocol.Time(time.Minute)
		w.step()
	}
	switch w.chance.IntN(6) {
	case 0:
		w.abort()
		w.did["abort"]++
		require.Equal(w.t, fmt.Sprint(before), fmt.Sprint(dump(w.broker)))
		return
	case 1:
		w.seal()
		return
	case 2:
		if w.stored != "" {
			w.fail()
			w.did["fail"]++
			require.Equal(w.t, w.stored, fmt.Sprint(dump(w.broker)))
			return
		}
	}
	w.mirror()
	w.store()
	w.sameThere()
	if w.chance.IntN(10) == 0 {
		w.pass(3 * 24 * time.Hour)
	}
	defer func() { w.stored = fmt.Sprint(dump(w.broker)) }()
	if w.chance.IntN(6) == 0 {
		for _, n := range w.nodes(0, 0, "") { // a crash ends all sessions
			for range n.Online {
				w.leave(w.now, n.ID)
			}
		}
		w.mirror()
		w.store()
		stored := dump(w.broker)
		w.restart()
		w.did["restart"]++
		require.Equal(w.t, fmt.Sprint(stored), fmt.Sprint(dump(w.broker)))
	}
}

func (w *walk) step() {
	n := w.key()
	id, hash := protocol.NodeIDOf(publicKey(n)), protocol.KeyHashOf(publicKey(n))
	switch w.chance.IntN(9) {
	case 0, 1, 2:
		w.comes(n)
	case 3:
		w.leave(w.now, id)
		w.did["leave"]++
	case 4:
		if w.nodesByID[id].Online > 0 {
			w.put(id, "t")
			w.did["publish"]++
		}
	case 5:
		if _, here := w.nodesByID[id]; here && w.chance.IntN(2) == 0 {
			_ = w.join(w.now, id, []string{"a"}, w.chance.IntN(3) == 0)
			w.did["join"]++
		}
	case 6:
		f := &protocol.SetKey{ID: 1, Key: hash, Standing: protocol.Standing(w.chance.IntN(3)), Keep: w.chance.IntN(2) == 0}
		label := []string{fmt.Sprint("l", w.chance.IntN(3))}
		if w.chance.IntN(2) == 0 {
			f.Add = label
		} else {
			f.Drop = label
		}
		_, _ = w.setKey(w.now, f)
		w.did["set"]++
	case 7:
		token := secretToken(byte(w.chance.IntN(6)))
		if w.chance.IntN(4) == 0 {
			_, _ = w.revokeToken(token.ID)
			w.did["revoke"]++
			return
		}
		_, _ = w.createToken(w.now, &protocol.CreateToken{
			ID: 1, Token: token.ID, Hash: token.Hash(), Uses: uint64(w.chance.IntN(3)), Lifetime: time.Duration(w.chance.IntN(2)) * time.Hour,
		})
		w.did["create"]++
	case 8:
		if w.forgetNode(id) == nil {
			w.did["forget"]++
		} else {
			w.did["kept"]++
		}
	}
}

// comes lets somebody in by some mode, and checks what has to hold then.
func (w *walk) comes(n byte) {
	a := bearer(n, AdmitMode(w.chance.IntN(3)))
	if w.chance.IntN(2) == 0 {
		a.token, a.brought = secretToken(byte(w.chance.IntN(6))), true
	}
	was, known := len(w.nodesByID), w.wasHere(a.key)
	used := w.wouldUse(w.now, a)
	before := w.mustStay()
	_, fault := w.letIn(w.now, a)
	for _, id := range before {
		require.Contains(w.t, w.nodesByID, id)
	}
	switch {
	case fault != nil:
		w.did["out"]++
	case w.standingOf[a.hash].Standing == protocol.StandingRevoked:
		w.t.Errorf("a revoked key was let in")
	default:
		w.did["in"]++
		if used {
			w.did["by token"]++
		}
		if !known && len(w.nodesByID) <= was {
			w.did["evicted"]++
		}
	}
	require.LessOrEqual(w.t, len(w.nodesByID), 6)
	for _, k := range w.tokens {
		require.True(w.t, k.Uses == 0 || k.Used <= k.Uses, "%+v", k)
	}
}

// mustStay are the nodes that nobody's coming pushes out.
func (w *walk) mustStay() (list []protocol.NodeID) {
	for id, n := range w.nodesByID {
		last, waiting := archive{w.trial}.Retained(id)
		_, judged := w.standingOf[protocol.KeyHashOf(n.Key)]
		lately := max(n.LastSeen, last)+strangersKept > w.now
		if n.Online > 0 || judged || waiting || lately && (last > 0 || len(w.topicsOf(id)) > 0) {
			list = append(list, id)
		}
	}
	return list
}
