package registry_test

import (
	"crypto/ed25519"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/memlog"
)

// user is a client in this world.
func (w *world) user(name string, change ...func(*client.Options)) (*client.Client, error) {
	o := client.Options{Key: key(name), NoState: true, Name: name, PacketConn: w.net.Listen(name)}
	for _, c := range change {
		c(&o)
	}
	return client.Dial(w.t.Context(), w.net.Addr("registry"), o)
}

func withToken(text string) func(*client.Options) { return func(o *client.Options) { o.Token = text } }

func TestClientsJoinWithTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := guarded(t, registry.AdmitToken)
		defer w.close()
		root, err := w.user("root")
		require.NoError(t, err)
		defer root.Close()
		_, err = w.user("a")
		require.ErrorIs(t, err, protocol.ErrNotAdmitted)

		text, entry, err := root.CreateToken(t.Context(), client.TokenOptions{
			Uses: 1, Lifetime: time.Hour, Labels: []string{"lab"}, Note: "for a",
		})
		require.NoError(t, err)
		require.Equal(t, entry.Created+protocol.Time(time.Hour), entry.Expires)
		a, err := w.user("a", withToken(text))
		require.NoError(t, err)
		_, err = a.PublishTo(t.Context(), "t", []byte("x"))
		require.NoError(t, err)

		// Its connection comes back, though the token is used up.
		session := w.reg.Sessions()[1]
		w.reg.Disconnect(session.ID, nil)
		_, err = a.PublishTo(t.Context(), "t", []byte("y"))
		require.NoError(t, err)
		require.NoError(t, a.Close())
		_, err = w.user("b", withToken(text))
		require.ErrorIs(t, err, protocol.ErrNotAdmitted)
		require.ErrorContains(t, err, "used up")

		text, entry, err = root.CreateToken(t.Context(), client.TokenOptions{Lifetime: time.Minute})
		require.NoError(t, err)
		time.Sleep(time.Minute)
		_, err = w.user("b", withToken(text))
		require.ErrorContains(t, err, "expired")
		_, err = root.RevokeToken(t.Context(), entry.ID)
		require.NoError(t, err)
		_, err = w.user("b", withToken(text))
		require.ErrorContains(t, err, "revoked")
		_, err = root.RevokeToken(t.Context(), protocol.TokenID{})
		require.ErrorIs(t, err, protocol.ErrNotFound)

		var notes []string
		for entry, err := range root.Tokens(t.Context()) {
			require.NoError(t, err)
			notes = append(notes, entry.Note)
		}
		require.ElementsMatch(t, []string{"for a", ""}, notes)
	})
}

// The secret of a token goes to no registry but its own.
func TestATokenIsNotShownToAnotherRegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := false
		w := start(t, registry.Options{Hooks: &registry.Hooks{
			Before: func(op registry.Operation) error { told = true; return nil },
		}})
		defer w.close()
		token := protocol.JoinToken{Registry: hashOf("another registry"), Secret: [16]byte{1}}
		_, err := w.user("a", withToken(token.String()))
		require.ErrorIs(t, err, protocol.ErrWrongKey)
		require.False(t, told)
	})
}

// A token outlives the key that it names.
func TestATokenFollowsTheRegistrysKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := key("old registry")
		w := startBare(t, registry.Options{
			Successions: []protocol.Succession{protocol.SignSuccession(old, key("registry").Public().(ed25519.PublicKey))},
			Admission:   registry.Admission{Mode: registry.AdmitToken, Operators: []protocol.KeyHash{hashOf("root")}},
		})
		defer w.close()
		root, err := w.user("root")
		require.NoError(t, err)
		defer root.Close()
		text, _, err := root.CreateToken(t.Context(), client.TokenOptions{})
		require.NoError(t, err)
		token, err := protocol.ParseJoinToken(text)
		require.NoError(t, err)
		token.Registry = hashOf("old registry")
		a, err := w.user("a", withToken(token.String()))
		require.NoError(t, err)
		require.NoError(t, a.Close())
	})
}

func TestClientsOfOperators(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := guarded(t, registry.AdmitKnown)
		defer w.close()
		root, err := w.user("root")
		require.NoError(t, err)
		defer root.Close()
		guest, err := w.user("guest")
		require.NoError(t, err)
		defer guest.Close()

		_, err = guest.SetKey(t.Context(), hashOf("a"), client.KeyChange{})
		require.ErrorIs(t, err, protocol.ErrDenied)
		admitted, revoked := protocol.StandingAdmitted, protocol.StandingRevoked
		e, err := root.SetKey(t.Context(), hashOf("a"), client.KeyChange{Standing: &admitted, Add: []string{"lab"}})
		require.NoError(t, err)
		require.Equal(t, []string{"lab"}, e.Labels)
		a, err := w.user("a")
		require.NoError(t, err)
		_, err = root.SetKey(t.Context(), hashOf("a"), client.KeyChange{Add: []string{"eu"}})
		require.NoError(t, err)

		require.NoError(t, a.Join(t.Context(), "t"))

		// The revoked client learns why, and does not wait for better times.
		_, err = root.SetKey(t.Context(), hashOf("a"), client.KeyChange{Standing: &revoked})
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		_, err = a.PublishTo(t.Context(), "t", nil)
		require.ErrorIs(t, err, protocol.ErrNotAdmitted)
		require.NoError(t, a.Close())

		var keys []protocol.KeyEntry
		for e, err := range root.Keys(t.Context()) {
			require.NoError(t, err)
			keys = append(keys, e)
		}
		require.Len(t, keys, 1)
		require.Equal(t, []string{"eu", "lab"}, keys[0].Labels)

		_, err = guest.PublishTo(t.Context(), "t", nil)
		require.NoError(t, err)
		require.ErrorIs(t, guest.PurgeTopic(t.Context(), "t", 0), protocol.ErrDenied)
		require.NoError(t, root.PurgeTopic(t.Context(), "t", 0))
		require.NoError(t, root.DeleteTopic(t.Context(), "t"))
		require.NoError(t, root.ForgetNode(t.Context(), nodeID("a")))
		require.ErrorIs(t, root.ForgetNode(t.Context(), nodeID("a")), protocol.ErrNotFound)

		// It stays out, and if it is let in again it has none of its rights.
		e, err = root.SetKey(t.Context(), hashOf("a"), client.KeyChange{})
		require.NoError(t, err)
		require.Equal(t, revoked, e.Standing)
		require.Empty(t, e.Labels)
	})
}

// A log that comes back knows its tokens, and who was let in.
func TestAdmissionIsInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memlog.New(memlog.Options{})
		defer l.Close()
		o := registry.Options{Log: l, Admission: registry.Admission{Mode: registry.AdmitToken, Operators: []protocol.KeyHash{hashOf("root")}}}
		w := startBare(t, o)
		root, err := w.user("root")
		require.NoError(t, err)
		once, _, err := root.CreateToken(t.Context(), client.TokenOptions{Uses: 1})
		require.NoError(t, err)
		often, _, err := root.CreateToken(t.Context(), client.TokenOptions{})
		require.NoError(t, err)
		a, err := w.user("a", withToken(once))
		require.NoError(t, err)
		require.NoError(t, a.Close())
		require.NoError(t, root.Close())
		w.close()

		w = startBare(t, o)
		defer w.close()
		_, err = w.user("b", withToken(once))
		require.ErrorContains(t, err, "used up")
		for _, who := range []struct{ name, token string }{{"a", ""}, {"b", often}} {
			c, err := w.user(who.name, withToken(who.token))
			require.NoError(t, err)
			require.NoError(t, c.Close())
		}
	})
}

func TestTheTokenNamesTheRegistry(t *testing.T) {
	require.Equal(t, link.Fingerprint(key("registry").Public().(ed25519.PublicKey)), hashOf("registry").String())
}
