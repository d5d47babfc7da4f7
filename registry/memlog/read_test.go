package memlog

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/internal/testenv"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

func TestReadingAllocatesNothing(t *testing.T) {
	testenv.Allocs(t)
	l := New(Options{})
	joined := map[string]struct{}{"a.1": {}, "a.2": {}, "none": {}}
	for seq := protocol.Seq(1); seq <= 2000; seq++ {
		r := &registry.Record{Message: protocol.Message{Seq: seq, Time: protocol.Time(seq), Sender: 1, Topic: fmt.Sprint("a.", seq%5)}}
		require.NoError(t, l.Append(&registry.Batch{Records: []*registry.Record{r}}))
	}
	page := registry.Page{MaxRecords: 100}
	for _, sel := range []*registry.Selection{
		{Pattern: "a.1"}, {Pattern: "a.*"}, {Pattern: "*", LastPerTopic: true}, {Topics: joined, Direct: 1}, {Pattern: "*", Since: 1900},
	} {
		require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
			for _, after := range []protocol.Seq{0, 1000, 1999} {
				if err := l.Read(sel, after, 2000, &page); err != nil {
					t.Error(err)
				}
			}
			if err := l.ReadNewest(sel, 0, 50, 10, &page); err != nil {
				t.Error(err)
			}
		}), 0.1, "%+v", sel)
	}
}
