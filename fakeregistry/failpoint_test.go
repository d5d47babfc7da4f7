package fakeregistry_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/stretchr/testify/require"
)

// TestCrashAtEachPoint shows where a publish is that a crash met on its way, and
// that the client finds out by itself.
func TestCrashAtEachPoint(t *testing.T) {
	for _, c := range []struct {
		point     fakeregistry.Point
		stored    bool // by the first sending
		duplicate bool // the second one is known as such
	}{
		{fakeregistry.BeforeStore, false, false},
		{fakeregistry.AfterStore, true, true},
		{fakeregistry.BeforeAck, true, true},
		{fakeregistry.AfterAck, true, false},
	} {
		t.Run(string(c.point), func(t *testing.T) {
			bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
				a := join(t, reg, "a")
				publish(t, a, "x", "first")
				reg.At(fakeregistry.Failpoint{Point: c.point, Topic: "x", Do: func(h fakeregistry.Hit) error {
					require.Equal(t, c.point, h.Point)
					require.Equal(t, "a", h.Node)
					require.EqualValues(t, 2, h.Seq)
					require.Equal(t, "second", string(h.Payload))
					reg.Crash()
					return nil
				}})
				p := a.Publish(t.Context(), client.Publication{Topic: "x", Payload: []byte("second")})
				time.Sleep(time.Second)
				require.False(t, reg.Running())
				require.Equal(t, c.stored, len(reg.Messages("x")) == 2)

				require.NoError(t, reg.Start())
				ack, err := p.Wait(t.Context())
				require.NoError(t, err)
				if c.point != fakeregistry.AfterAck { // that answer may have left, or not
					require.Equal(t, c.duplicate, ack.Duplicate)
				}
				require.EqualValues(t, 2, ack.Seq)
				require.Equal(t, []string{"first", "second"}, payloads(reg.Messages("x")))
			})
		})
	}
}

func TestFailpointsCount(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a, b := join(t, reg, "a"), join(t, reg, "b")
		var hits []string
		stop := reg.At(fakeregistry.Failpoint{
			Point: fakeregistry.AfterStore, Node: "a", Topic: "jobs.*", Skip: 1, Times: -1,
			Do: func(h fakeregistry.Hit) error { hits = append(hits, h.Topic); return nil },
		})
		for _, topic := range []string{"jobs.1", "other", "jobs.2", "jobs.3"} {
			publish(t, a, topic, "")
			publish(t, b, topic, "")
		}
		stop()
		publish(t, a, "jobs.4", "")
		synctest.Wait()
		require.Equal(t, []string{"jobs.2", "jobs.3"}, hits)
	})
}

func TestAFailpointBeforeTheStoreCanRefuse(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a := join(t, reg, "a")
		reg.At(fakeregistry.Failpoint{Point: fakeregistry.BeforeStore, Do: func(fakeregistry.Hit) error {
			return errors.New("no")
		}})
		require.ErrorContains(t, within(t, a, time.Second, "x", "refused"), "no")
		publish(t, a, "x", "stored")
		require.Equal(t, []string{"stored"}, payloads(reg.Messages("x")))
	})
}

func TestAFailpointDropsTheSession(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a := join(t, reg, "a")
		reg.At(fakeregistry.Failpoint{Point: fakeregistry.AfterStore, Do: func(h fakeregistry.Hit) error {
			reg.Disconnect(h.Node)
			time.Sleep(time.Second) // so that the answer does not leave before
			return nil
		}})
		publish(t, a, "x", "")
		require.EqualValues(t, 2, a.Stats().Connects)
		require.Len(t, reg.Messages("x"), 1)
	})
}

func TestCrashForComesBack(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a := join(t, reg, "a")
		reg.At(fakeregistry.Failpoint{Point: fakeregistry.BeforeStore, Do: func(fakeregistry.Hit) error {
			reg.CrashFor(3 * time.Second)
			return nil
		}})
		start := time.Now()
		publish(t, a, "x", "")
		require.Greater(t, time.Since(start), 3*time.Second)
		require.Len(t, reg.Messages("x"), 1)
	})
}
