package fakeregistry_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/require"
)

// ending is a test that ends when it is told, and keeps its errors.
type ending struct {
	fakeregistry.TB
	cleanup []func()
	errors  []string
}

func (f *ending) Helper()           {}
func (f *ending) Cleanup(do func()) { f.cleanup = append(f.cleanup, do) }
func (f *ending) Errorf(text string, args ...any) {
	f.errors = append(f.errors, fmt.Sprintf(text, args...))
}

func (f *ending) end() {
	for _, do := range f.cleanup {
		do()
	}
}

// Every fault that names a node can name one that there never is.
func TestAMisspeltNodeFailsTheTest(t *testing.T) {
	const typo, there = "wroker", "worker"
	for name, fault := range map[string]func(*fakeregistry.Registry, string){
		"partition":         func(r *fakeregistry.Registry, node string) { r.Partition(node, fakeregistry.Host) },
		"partition between": func(r *fakeregistry.Registry, node string) { r.Partition(there, node) },
		"partition one way": func(r *fakeregistry.Registry, node string) { r.PartitionOneWay(fakeregistry.Host, node) },
		"isolate":           (*fakeregistry.Registry).Isolate,
		"heal":              func(r *fakeregistry.Registry, node string) { r.Heal(node, fakeregistry.Host) },
		"link":              func(r *fakeregistry.Registry, node string) { r.SetLink(node, "", fakeregistry.Link{Loss: 0.5}) },
		"mute":              (*fakeregistry.Registry).Mute,
		"unmute":            (*fakeregistry.Registry).Unmute,
		"stall":             (*fakeregistry.Registry).Stall,
		"unstall":           (*fakeregistry.Registry).Unstall,
		"disconnect":        (*fakeregistry.Registry).Disconnect,
		"delay acks":        func(r *fakeregistry.Registry, node string) { r.DelayAcks(node, time.Second) },
		"drop acks":         func(r *fakeregistry.Registry, node string) { r.DropAcks(node, 1) },
		"fail": func(r *fakeregistry.Registry, node string) {
			r.Fail(fakeregistry.Failure{Op: fakeregistry.OpPublish, Node: node})
		},
		"failpoint": func(r *fakeregistry.Registry, node string) {
			r.At(fakeregistry.Failpoint{Point: fakeregistry.AfterAck, Node: node, Do: func(fakeregistry.Hit) error { return nil }})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &ending{TB: t}
				reg := fakeregistry.New(f, fakeregistry.Options{})
				reg.Endpoint(there)
				fault(reg, typo)
				fault(reg, typo)
				require.Equal(t, []string{typo}, reg.Strangers())
				require.Empty(t, f.errors, "it may still come")
				f.end()
				require.Len(t, f.errors, 1)
				require.Contains(t, f.errors[0], `names node "wroker", which there never was; there were worker`)
			})
		})
	}
}

// A fault may name a node before it is there, by its name, what it calls itself or
// its id; the dead, the registry and "" are nobody unknown either.
func TestNodesThatComeLaterAreNoStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &ending{TB: t}
		reg := fakeregistry.New(f, fakeregistry.Options{})
		id := fakeregistry.NodeID("a").String()
		for _, node := range []string{"", fakeregistry.Host, "a", id, "agent-7", "dead"} {
			reg.Mute(node)
			reg.Unmute(node)
		}
		require.Equal(t, []string{"a", id, "agent-7", "dead"}, reg.Strangers())
		addr, o := options(reg, "a")
		o.Name = "agent-7"
		c, err := client.Dial(t.Context(), addr, o)
		require.NoError(t, err)
		require.NoError(t, c.Close())
		_, err = reg.Inject(t.Context(), fakeregistry.Raw{From: "dead", Topic: "t"})
		require.NoError(t, err)
		require.Empty(t, reg.Strangers())
		f.end()
		require.Empty(t, f.errors)
	})
}

// Who forgets the endpoint's socket is told at once, and does not wait for an
// address that leads nowhere.
func TestDialWithoutTheSocketOfTheNetwork(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		addr, o := options(reg, "a")
		o.PacketConn = nil
		for _, list := range []string{addr, "quic://" + addr, "127.0.0.1:1," + addr} {
			start := time.Now()
			_, err := client.Dial(t.Context(), list, o)
			require.ErrorIs(t, err, protocol.ErrInvalid)
			require.ErrorContains(t, err, "Options.PacketConn must be that of the fake registry's Endpoint")
			require.Zero(t, time.Since(start))
		}
	})
}
