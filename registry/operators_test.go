package registry_test

import (
	"context"
	"crypto/ed25519"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/memlog"
)

func hashOf(name string) protocol.KeyHash {
	return protocol.KeyHashOf(key(name).Public().(ed25519.PublicKey))
}

// guarded is a registry for root and those whom root lets in.
func guarded(t testing.TB, mode registry.AdmitMode) *world {
	t.Helper()
	o := registry.Options{Admission: registry.Admission{
		Mode: mode, Allow: []protocol.KeyHash{hashOf("guest")}, Operators: []protocol.KeyHash{hashOf("root")},
	}}
	if mode == registry.AdmitOpen {
		o.Access = registry.AllowAll // or it would serve loopback addresses only
	}
	return startBare(t, o)
}

// apply dials with a token and returns the answer to the hello.
func (w *world) apply(name, token string) (*peer, protocol.Frame) {
	w.t.Helper()
	p := w.dial(name)
	h := hello()
	h.Token = []byte(token)
	p.control = p.open(h)
	f := p.control.read()
	if welcome, ok := f.(*protocol.Welcome); ok {
		p.welcome = welcome
	}
	return p, f
}

// enters joins with a token.
func (w *world) enters(name, token string) *peer {
	w.t.Helper()
	p, f := w.apply(name, token)
	require.IsType(w.t, &protocol.Welcome{}, f)
	return p
}

// barred is refused, with this word in the reason.
func (w *world) barred(name, token, why string) {
	w.t.Helper()
	p, f := w.apply(name, token)
	defer p.close()
	require.IsType(w.t, &protocol.Fail{}, f)
	require.Equal(w.t, protocol.ErrNotAdmitted, f.(*protocol.Fail).Code)
	require.Contains(w.t, f.(*protocol.Fail).Detail, why)
	p.ends(protocol.ErrNotAdmitted)
}

// grant makes a token as an operator does.
func grant(p *peer, n byte, change ...func(*protocol.CreateToken)) protocol.JoinToken {
	p.t.Helper()
	token := protocol.JoinToken{Registry: hashOf("registry"), ID: protocol.TokenID{n}, Secret: [16]byte{n}}
	f := &protocol.CreateToken{ID: uint64(n), Token: token.ID, Hash: token.Hash()}
	for _, c := range change {
		c(f)
	}
	page := ask[*protocol.TokensPage](p, f)
	require.Len(p.t, page.Tokens, 1)
	require.Equal(p.t, token.ID, page.Tokens[0].ID)
	return token
}

func TestJoinTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := guarded(t, registry.AdmitToken)
		defer w.close()
		root := w.enters("root", "")
		defer root.close()
		w.barred("a", "", "brings no join token")
		w.barred("a", "anything", "brings no join token")
		token := grant(root, 1, func(f *protocol.CreateToken) { f.Uses, f.Lifetime = 1, time.Hour })
		wrong := token
		wrong.Secret[0]++
		w.barred("a", wrong.String(), "does not know")

		w.enters("a", token.String()).close()
		w.enters("a", token.String()).close() // a key that is known needs none
		w.enters("a", "").close()
		w.barred("b", token.String(), "used up")
		w.enters("guest", "").close() // listed

		token = grant(root, 2, func(f *protocol.CreateToken) { f.Lifetime = time.Hour })
		w.enters("b", token.String()).close()
		time.Sleep(time.Hour)
		w.barred("c", token.String(), "expired")
		w.enters("b", token.String()).close()

		token = grant(root, 3)
		page := ask[*protocol.TokensPage](root, &protocol.RevokeToken{ID: 9, Token: token.ID})
		require.True(t, page.Tokens[0].Revoked)
		w.barred("c", token.String(), "revoked")
		require.Equal(t, protocol.ErrNotFound, ask[*protocol.Fail](root, &protocol.RevokeToken{ID: 9}).Code)

		page = ask[*protocol.TokensPage](root, &protocol.GetTokens{ID: 10, Limit: 2})
		require.Len(t, page.Tokens, 2)
		require.Equal(t, []byte{2, 0, 0, 0, 0, 0, 0, 0}, page.Next)
		page = ask[*protocol.TokensPage](root, &protocol.GetTokens{ID: 11, After: page.Next})
		require.Len(t, page.Tokens, 1)
		require.Empty(t, page.Next)
	})
}

// The use of a token is in the log before its bearer is in.
func TestATokenThatCannotBeNotedLetsInNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &brittleLog{Log: memlog.New(memlog.Options{})}
		w := startBare(t, registry.Options{Log: l, Admission: registry.Admission{
			Mode: registry.AdmitToken, Operators: []protocol.KeyHash{hashOf("root")},
		}})
		defer w.close()
		root := w.enters("root", "")
		defer root.close()
		token := grant(root, 1, func(f *protocol.CreateToken) { f.Uses = 1 })
		l.full.Store(true)
		p, f := w.apply("a", token.String())
		require.Equal(t, protocol.ErrStorageFull, f.(*protocol.Fail).Code)
		p.close()
		w.enters("root", "").close() // others come and read
		l.full.Store(false)
		w.enters("a", token.String()).close()
		l.full.Store(true)
		w.enters("a", token.String()).close()
	})
}

type brittleLog struct {
	registry.Log
	full atomic.Bool
}

func (l *brittleLog) Append(b *registry.Batch) error {
	if l.full.Load() {
		return protocol.ErrStorageFull
	}
	return l.Log.Append(b)
}

func TestOrdinaryNodesDoNoOperatorsWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := guarded(t, registry.AdmitKnown)
		defer w.close()
		root, guest := w.enters("root", ""), w.enters("guest", "")
		defer root.close()
		defer guest.close()
		requests := []protocol.Frame{
			&protocol.CreateToken{ID: 1}, &protocol.GetTokens{ID: 2}, &protocol.RevokeToken{ID: 3},
			&protocol.SetKey{ID: 4}, &protocol.GetKeys{ID: 5}, &protocol.ForgetNode{ID: 6},
			&protocol.PurgeTopic{ID: 7, Topic: "t"}, &protocol.DeleteTopic{ID: 8, Topic: "t"},
			&protocol.SetFence{ID: 9, Topic: "t", Epoch: guest.welcome.Epoch.ID, K: 1},
		}
		denied := func() {
			t.Helper()
			for _, f := range requests {
				require.Equal(t, protocol.ErrDenied, ask[*protocol.Fail](guest, f).Code, "%T", f)
			}
		}
		denied()
		lane := guest.lane(protocol.LaneNormal)
		guest.publish(lane, "t", "x") // the rest they may
		relayed := guest.message("t", "y")
		relayed.Origin = 7
		lane.send(relayed)
		lane.refused(protocol.ErrDenied)

		// Labels make an operator, and a relay, of who is there.
		label := func(f *protocol.SetKey) {
			f.ID, f.Key, f.Keep = 20, hashOf("guest"), true
			ask[*protocol.KeysPage](root, f)
		}
		label(&protocol.SetKey{Add: []string{registry.LabelAdmin, registry.LabelRelay}})
		require.Len(t, ask[*protocol.KeysPage](guest, &protocol.GetKeys{ID: 21}).Keys, 1)
		lane.send(relayed)
		lane.ack()
		label(&protocol.SetKey{Drop: []string{registry.LabelAdmin, registry.LabelRelay}})
		denied()
	})
}

func TestARevokedKeyIsOutAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, mode := range []registry.AdmitMode{registry.AdmitOpen, registry.AdmitKnown, registry.AdmitToken} {
			w := guarded(t, mode)
			root := w.enters("root", "")
			var guests []*peer
			for range 2 {
				guests = append(guests, w.enters("guest", ""))
			}
			sub := guests[0].follow("t")
			set := func(standing protocol.Standing) {
				e := ask[*protocol.KeysPage](root, &protocol.SetKey{ID: 1, Key: hashOf("guest"), Standing: standing}).Keys[0]
				require.Equal(t, standing, e.Standing)
			}
			set(protocol.StandingRevoked)
			for _, guest := range guests {
				guest.ends(protocol.ErrNotAdmitted)
				guest.close()
			}
			_, err := sub.Next()
			require.ErrorIs(t, err, protocol.ErrNotAdmitted)
			w.barred("guest", "", "revoked")
			w.barred("guest", grant(root, 1).String(), "revoked")
			set(protocol.StandingAdmitted)
			w.enters("guest", "").close()

			// Nobody puts out who is named an operator by the configuration.
			e := ask[*protocol.KeysPage](root, &protocol.SetKey{ID: 2, Key: hashOf("root"), Standing: protocol.StandingRevoked})
			require.Len(t, e.Keys, 1)
			w.enters("root", "").close()
			root.close()
			w.close()
		}
	})
}

func TestOperatorsForgetAndPurge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := guarded(t, registry.AdmitOpen)
		defer w.close()
		root, a := w.enters("root", ""), w.enters("a", "")
		defer root.close()
		lane := a.lane(protocol.LaneNormal)
		for _, topic := range []string{"t", "t", "u", "t"} {
			a.publish(lane, topic, topic)
		}
		ask[*protocol.Done](a, &protocol.Join{ID: 1, Topics: []string{"t"}})
		require.Equal(t, protocol.ErrConflict, ask[*protocol.Fail](root, &protocol.ForgetNode{ID: 1, Node: nodeID("a")}).Code)

		ask[*protocol.Done](root, &protocol.PurgeTopic{ID: 2, Topic: "t", UpTo: 2})
		sub, _ := root.subscribe(protocol.Subscribe{Pattern: "t", Start: protocol.StartAll})
		require.Equal(t, protocol.Seq(4), next[*protocol.Deliver](sub).Seq)
		next[*protocol.CaughtUp](sub)
		ask[*protocol.FenceState](root, &protocol.SetFence{ID: 3, Topic: "t", Epoch: a.welcome.Epoch.ID, K: 5})
		ask[*protocol.Done](root, &protocol.DeleteTopic{ID: 4, Topic: "t"})
		require.Empty(t, ask[*protocol.JoinedPage](a, &protocol.GetJoined{ID: 5}).Topics)
		topics := ask[*protocol.TopicsPage](root, &protocol.GetTopics{ID: 6}).Topics
		require.Len(t, topics, 1)
		require.Equal(t, "u", topics[0].Name)
		require.Equal(t, uint64(5), ask[*protocol.FenceState](root, &protocol.GetFence{ID: 7, Topic: "t"}).K)
		ask[*protocol.Done](root, &protocol.DeleteTopic{ID: 8, Topic: "never"})
		require.Equal(t, protocol.Seq(5), a.publish(lane, "t", "anew"))

		a.close()
		time.Sleep(time.Second) // so long it takes to arrive
		ask[*protocol.Done](root, &protocol.ForgetNode{ID: 9, Node: nodeID("a")})
		require.Len(t, ask[*protocol.NodesPage](root, &protocol.GetNodes{ID: 10}).Nodes, 1)
		require.Equal(t, protocol.ErrNotFound, ask[*protocol.Fail](root, &protocol.ForgetNode{ID: 11, Node: nodeID("a")}).Code)
	})
}

// changing are rules that change: some topics are closed to all.
type changing struct {
	closed atomic.Pointer[map[string]bool]
}

func (c *changing) set(topics ...string) {
	closed := make(map[string]bool)
	for _, t := range topics {
		closed[t] = true
	}
	c.closed.Store(&closed)
}

func (c *changing) access(_ context.Context, r registry.Request) error {
	closed := *c.closed.Load()
	if r.Right == registry.RightSubscribe && (closed[r.Topic] || r.Topic == "*" && len(closed) > 0) {
		return protocol.Errorf(protocol.ErrDenied, "%s is closed", r.Topic)
	}
	return nil
}

func TestRulesThatChangeConcernWhatIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules := new(changing)
		rules.set()
		w := start(t, registry.Options{Access: rules.access})
		defer w.close()
		a := w.join("a")
		defer a.close()
		lane := a.lane(protocol.LaneNormal)
		ask[*protocol.Done](a, &protocol.Join{ID: 1, Topics: []string{"open", "shut"}})
		open, shut, all := a.follow("open"), a.follow("shut"), a.follow("*")
		inbox, _ := a.subscribe(protocol.Subscribe{Source: protocol.SourceInbox})
		next[*protocol.CaughtUp](inbox)
		publish := func(n string) {
			t.Helper()
			a.publish(lane, "shut", "shut "+n)
			a.publish(lane, "open", "open "+n)
		}
		publish("1")
		require.Equal(t, []string{"shut 1"}, deliveries(shut, 1))
		for _, c := range []*channel{all, inbox} {
			require.Equal(t, []string{"shut 1", "open 1"}, deliveries(c, 2))
		}

		rules.set("shut")
		w.reg.Recheck()
		publish("2")
		f := next[*protocol.Fail](shut)
		require.Equal(t, protocol.ErrDenied, f.Code)
		require.Equal(t, "shut is closed", f.Detail)
		shut.ends(0)
		require.NoError(t, shut.CloseSend())
		for _, c := range []*channel{all, inbox} {
			require.Equal(t, []string{"open 2"}, deliveries(c, 1))
		}

		// And back: what was closed meanwhile stays unread.
		rules.set()
		w.reg.Recheck()
		publish("3")
		for _, c := range []*channel{all, inbox} {
			require.Equal(t, []string{"shut 3", "open 3"}, deliveries(c, 2))
		}
		require.Equal(t, []string{"open 1", "open 2", "open 3"}, deliveries(open, 3))
		rules.set("open")
		w.reg.Recheck()
		require.Equal(t, protocol.ErrDenied, next[*protocol.Fail](open).Code) // without news, too
	})
}

// Rules that change while a subscription begins are not missed by it.
func TestRulesThatChangeAtTheBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules := new(changing)
		rules.set()
		var w *world
		asked := false
		w = start(t, registry.Options{Access: func(ctx context.Context, r registry.Request) error {
			err := rules.access(ctx, r)
			if r.Right == registry.RightSubscribe && !asked {
				asked = true
				rules.set("t")
				done := make(chan struct{})
				go func() { // not from here: Access must not call the registry
					defer close(done)
					w.reg.Recheck()
				}()
				<-done
			}
			return err
		}})
		defer w.close()
		a := w.join("a")
		defer a.close()
		sub, _ := a.subscribe(protocol.Subscribe{Pattern: "t"})
		next[*protocol.CaughtUp](sub)
		require.Equal(t, protocol.ErrDenied, next[*protocol.Fail](sub).Code)
	})
}

// A client that is behind reads what is old by the new rules too.
func TestRulesThatChangeConcernWhatIsNotSentYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules := new(changing)
		rules.set()
		hold := make(chan struct{})
		var held atomic.Bool
		w := start(t, registry.Options{Access: rules.access, Hooks: &registry.Hooks{
			Push: func(protocol.NodeID) <-chan struct{} {
				if held.Load() {
					return hold
				}
				return nil
			},
		}})
		defer w.close()
		a := w.join("a")
		defer a.close()
		lane := a.lane(protocol.LaneNormal)
		exact, all := a.follow("shut"), a.follow("*")
		held.Store(true)
		a.publish(lane, "shut", "1")
		a.publish(lane, "open", "2")
		synctest.Wait()
		rules.set("shut")
		w.reg.Recheck()
		held.Store(false)
		close(hold)
		require.Equal(t, protocol.ErrDenied, next[*protocol.Fail](exact).Code)
		require.Equal(t, []string{"2"}, deliveries(all, 1))
	})
}

func TestAdmissionIsChecked(t *testing.T) {
	log := memlog.New(memlog.Options{})
	defer log.Close()
	_, err := registry.New(registry.Options{Log: log, Key: key("registry"), Admission: registry.Admission{Mode: 3}})
	require.ErrorIs(t, err, protocol.ErrInvalid)
	for _, mode := range []registry.AdmitMode{registry.AdmitOpen, registry.AdmitKnown, registry.AdmitToken} {
		got, err := registry.ParseAdmitMode(mode.String())
		require.NoError(t, err)
		require.Equal(t, mode, got)
	}
	_, err = registry.ParseAdmitMode("closed")
	require.ErrorIs(t, err, protocol.ErrInvalid)
	require.Equal(t, "mode 7", registry.AdmitMode(7).String())

	// A registry that lets in everybody to everything is for this machine alone.
	for mode, ok := range map[registry.AdmitMode]bool{registry.AdmitOpen: false, registry.AdmitKnown: true, registry.AdmitToken: true} {
		r, err := registry.New(registry.Options{Log: log, Key: key("registry"), Admission: registry.Admission{Mode: mode}})
		require.NoError(t, err)
		_, err = r.Listen("0.0.0.0:0")
		require.Equal(t, ok, err == nil, "%v: %v", mode, err)
		require.NoError(t, r.Close())
	}
}
