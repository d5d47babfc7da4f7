package disklog_test

import (
	"bytes"
	"crypto/ed25519"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry/disklog"
)

var makeFormat = flag.Bool("make-format", false, "make testdata/format1, once and for all")

var (
	formatKey  = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32))
	formatOpts = disklog.Options{Retention: workKeep, Reserve: -1, Now: func() time.Time { return time.Unix(1e9, 0) }}
)

// A folder of each released format is kept, as it was written then. It is never
// changed: what a log made of it must come out of it for ever.
func TestOlderFormatsOpen(t *testing.T) {
	if *makeFormat {
		writeFormat(t, "testdata/format1")
	}
	dir := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/format1")))
	want, err := os.ReadFile("testdata/format1.ndjson")
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

	// It goes on from there.
	w := newWork(1)
	w.seq, w.now = l.Head()
	do(t, l, w, 20)
	again := bytes.NewReader(want)
	require.NoError(t, disklog.Import(filepath.Join(t.TempDir(), "copy"), again, formatOpts))
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
}
