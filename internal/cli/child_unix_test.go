//go:build unix

package cli

import (
	"bufio"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A guard gets each order whole, and one that stands still holds up nobody.
func TestOrdersAreWholeAndNeverWaitedFor(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	c := &child{orders: w}
	first := order{Until: 7, Terms: &terms{Signal: strings.Repeat("x", 500)}}
	c.give(first)
	for range 1000 { // far more than a pipe holds
		c.give(order{Until: 8, Terms: first.Terms})
	}
	require.NoError(t, w.Close())
	c.give(order{Stop: true}) // to nobody
	orders, done := make(chan order), make(chan struct{})
	go readOrders(bufio.NewReader(r), orders, done)
	require.Equal(t, first, <-orders)
	count := 1
	for o := range orders {
		require.Equal(t, order{Until: 8, Terms: first.Terms}, o)
		count++
	}
	require.Greater(t, count, 5)
	require.Less(t, count, 1001)
}
