package disklog_test

import (
	"bytes"
	"crypto/ed25519"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/disklog"
)

var makeFormat = flag.Bool("make-format", false, "make the folder of the newest format, once and for all")

var (
	formatKey  = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32))
	formatOpts = disklog.Options{Retention: workKeep, Reserve: -1, Now: func() time.Time { return time.Unix(1e9, 0) }}
)

// A folder of each format is kept, as it was written then. It is never changed:
// what a log made of it must come out of it for ever.
func TestOlderFormatsOpen(t *testing.T) {
	if *makeFormat {
		writeFormat(t, "testdata/format2")
	}
	for format := 1; format <= disklog.Format; format++ {
		t.Run(fmt.Sprint("format ", format), func(t *testing.T) {
			kept := fmt.Sprint("testdata/format", format)
			dir := filepath.Join(t.TempDir(), "log")
			require.NoError(t, os.CopyFS(dir, os.DirFS(kept)))
			want, err := os.ReadFile(kept + ".ndjson")
			require.NoError(t, err)

			r, err := disklog.Check(dir, formatOpts)
			require.NoError(t, err)
			require.Empty(t, r.Faults)
			require.Greater(t, r.Messages, 50)
			l := openLog(t, dir, formatOpts)
			var got bytes.Buffer
			require.NoError(t, l.Export(&got))
			require.Equal(t, string(want), got.String())
			require.Equal(t, formatKey, l.Key())
			require.Len(t, l.Successions(), 1)
			again := bytes.NewReader(want)
			require.NoError(t, disklog.Import(filepath.Join(t.TempDir(), "copy"), again, formatOpts))

			goOn(t, l, dir)
		})
	}
}

// goOn changes a log, while it still holds messages of an older format and when
// it has none any more.
func goOn(t *testing.T, l *disklog.Log, dir string) {
	t.Helper()
	w := newWork(1)
	w.seq, w.now = l.Head()
	first := func() protocol.Seq {
		page := registry.Page{MaxRecords: 1}
		require.NoError(t, l.Read(&registry.Selection{Pattern: "*"}, 0, w.seq, &page))
		return page.Records[0].Seq
	}
	old := w.seq
	for _, changes := range []int{3, 100} {
		require.LessOrEqual(t, first(), old)
		do(t, l, w, changes)
		want := print(t, l)
		closeLog(t, l)
		text, err := os.ReadFile(filepath.Join(dir, "format"))
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("pilotgo registry log, format %d\n", disklog.Format), string(text))
		r, err := disklog.Check(dir, formatOpts)
		require.NoError(t, err)
		require.Empty(t, r.Faults)
		o := formatOpts
		o.Recent = -1 // all of it from the disk
		l = openLog(t, dir, o)
		require.Equal(t, want, print(t, l))
	}
	require.Greater(t, first(), old)
}

// writeFormat makes a log of which one part is in tables and one in the store's
// log.
func writeFormat(t *testing.T, dir string) {
	t.Helper()
	w := newWork(11)
	for part := range 2 {
		l := openLog(t, dir, formatOpts)
		if part == 0 {
			require.NoError(t, l.SetKey(ed25519.NewKeyFromSeed(make([]byte, 32))))
			require.NoError(t, l.SetKey(formatKey))
		}
		do(t, l, w, 40)
		var text bytes.Buffer
		require.NoError(t, l.Export(&text))
		require.NoError(t, os.WriteFile(dir+".ndjson", text.Bytes(), 0o600))
		closeLog(t, l)
	}
	require.NotEqual(t, protocol.Seq(0), w.seq)
	cutLogs(t, filepath.Join(dir, "store"))
}

// cutLogs takes the room ahead off the store's logs, down to a block of theirs.
func cutLogs(t *testing.T, store string) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(store, "*.log"))
	require.NoError(t, err)
	for _, name := range logs {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		const block = 32 << 10
		used := len(bytes.TrimRight(text, "\x00"))
		require.NoError(t, os.Truncate(name, int64(min(len(text), (used+block-1)/block*block))))
	}
}
