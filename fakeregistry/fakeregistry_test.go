package fakeregistry_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/stretchr/testify/require"
)

func TestAMessageGoesThrough(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a, b := join(t, reg, "a"), join(t, reg, "b")
		sub := subscribe(t, b, "jobs.*")
		ack := publish(t, a, "jobs.created", "one")

		m := message(t, sub)
		require.Equal(t, "one", string(m.Payload))
		require.Equal(t, ack.Seq, m.Seq)
		require.Equal(t, fakeregistry.NodeID("a"), m.Sender)

		require.Equal(t, []string{"one"}, payloads(reg.Messages("jobs.*")))
		require.Empty(t, reg.Messages("other"))
		synctest.Wait()
		require.Len(t, reg.Sessions(), 2)
		require.Len(t, reg.Subscriptions(), 1)
		require.Equal(t, "b", reg.Subscriptions()[0].Node)
	})
}

// failing is a test that has failed.
type failing struct {
	fakeregistry.TB
	cleanup []func()
	logged  string
}

func (f *failing) Helper()                       {}
func (f *failing) Failed() bool                  { return true }
func (f *failing) Cleanup(do func())             { f.cleanup = append(f.cleanup, do) }
func (f *failing) Logf(text string, args ...any) { f.logged += fmt.Sprintf(text, args...) }

func TestAFailedTestShowsTheEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &failing{TB: t}
		reg := fakeregistry.New(f, fakeregistry.Options{})
		for i := range 200 {
			reg.Purge(fmt.Sprint("topic ", i))
		}
		for _, do := range f.cleanup {
			do()
		}
		require.Contains(t, f.logged, "purge topic 199")
		require.NotContains(t, f.logged, "purge topic 10\n")
		require.Contains(t, f.logged, "102 more before")
	})
}
