package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/fakeregistry"
)

// A report whose answer is lost does not hold up those after it.
func TestReportsGoOnBehindALostAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "ci")
		publish(t, s, 1, `{"a":1}`)
		a := follow(t, reg, "a")
		settle()
		require.Equal(t, "1: applied 1", a.report(t, reg))
		reg.DropAcks("a", 1)
		publish(t, s, 2, `{"a":2}`)
		settle()
		publish(t, s, 3, `{"a":3}`)
		pass(2 * time.Minute)
		require.Equal(t, "3: applied 3", a.report(t, reg))
	})
}
