package disklog_test

import (
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/disklog"
)

// A page of messages that lie far apart is read in several places at once. It is
// the same page, and one place that cannot be read fails all of it.
func TestASparsePageIsReadInParts(t *testing.T) {
	const topics, records = 20, 20_000
	disk := &breaker{name: ".sst", kinds: []errorfs.OpKind{errorfs.OpFileReadAt}, err: syscall.EIO}
	fs := breakableFS(vfs.NewMem(), disk)
	keep := registry.Retention{Messages: -1}
	f := newFeeder(topics, 128)
	l, err := disklog.Open("log", disklog.WithMemTable(disklog.Options{FS: fs, Retention: keep}, 64<<10))
	require.NoError(t, err)
	f.fill(t, l, records)
	closeLog(t, l)

	// The first half is on the disk, the second in memory too.
	l = openLog(t, "log", disklog.Options{FS: fs, Retention: keep})
	f.fill(t, l, records)
	sel := &registry.Selection{Pattern: f.topics[3]}
	for _, most := range []int{1, 63, 64, 65, 255, 1000, 0} {
		page, next := registry.Page{MaxRecords: most}, protocol.Seq(3)
		for at := protocol.Seq(0); at < f.seq; at = page.Scanned {
			require.NoError(t, l.Read(sel, at, f.seq, &page))
			for _, r := range page.Records {
				require.Equal(t, next, r.Seq)
				require.Equal(t, f.topics[3], r.Topic)
				next += topics
			}
		}
		require.Greater(t, next, f.seq)
	}

	require.NoError(t, l.Backup("backup"))
	cold := openLog(t, "backup", disklog.Options{FS: fs, Retention: keep, Recent: -1})
	disk.broken.Store(true)
	page := registry.Page{}
	require.ErrorIs(t, cold.Read(sel, 0, f.seq, &page), syscall.EIO)
	require.Empty(t, page.Records)
	disk.broken.Store(false)
	require.NoError(t, cold.Read(sel, 0, f.seq, &page))
	require.Len(t, page.Records, 2*records/topics)
}

// Rows are sorted by groups of streams, pages are in log order: whatever is read
// of whichever windows.
func TestPagesAreInLogOrder(t *testing.T) {
	const topics, records = 300, 10_000
	fs, keep := vfs.NewMem(), registry.Retention{Messages: -1}
	f := newFeeder(topics, 16)
	l, err := disklog.Open("log", disklog.WithMemTable(disklog.Options{FS: fs, Retention: keep}, 64<<10))
	require.NoError(t, err)
	f.fill(t, l, records)
	closeLog(t, l)
	l = openLog(t, "log", disklog.Options{FS: fs, Retention: keep, Recent: -1})

	some := map[string]struct{}{}
	for _, topic := range f.topics[:20] {
		some[topic] = struct{}{}
	}
	for _, sel := range []*registry.Selection{{Pattern: "*"}, {Pattern: "jobs.*"}, {Topics: some}, {Pattern: f.topics[7]}} {
		for _, most := range []int{1, 100, 5000, 0} {
			page, next := registry.Page{MaxRecords: most}, protocol.Seq(1)
			for at := protocol.Seq(0); at < f.seq; at = page.Scanned {
				require.NoError(t, l.Read(sel, at, f.seq, &page))
				for _, r := range page.Records {
					for !wants(sel, f.topics[int(next)%topics]) {
						next++
					}
					require.Equal(t, next, r.Seq)
					require.Equal(t, f.topics[int(next)%topics], r.Topic)
					next++
				}
			}
			require.Greater(t, next+topics, f.seq)
		}
	}
}

func wants(sel *registry.Selection, topic string) bool {
	_, ok := sel.Topics[topic]
	return ok || protocol.Match(sel.Pattern, topic)
}
