package disklog_test

import (
	"crypto/ed25519"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/disklog"
	"github.com/pilotgo/pilotgo/registry/memlog"
)

// pipe is a log of which Append leaves batches on their way.
type pipe struct {
	*disklog.Log
	most  int    // on their way when Append returns
	done  func() // called for each change that is done; may be nil
	begun []<-chan error
}

func (p *pipe) Append(b *registry.Batch) error {
	done, err := p.Begin(b)
	if err != nil {
		return err
	}
	p.begun = append(p.begun, done)
	return p.settle(p.most)
}

func (p *pipe) Purge(topic string, upTo protocol.Seq) error {
	return p.behind(p.Log.Purge(topic, upTo))
}

func (p *pipe) Expire(now protocol.Time) error { return p.behind(p.Log.Expire(now)) }

// behind is for changes that are done after those begun before them.
func (p *pipe) behind(err error) error {
	if err == nil {
		err = p.settle(0)
	}
	if err == nil {
		p.tell()
	}
	return err
}

func (p *pipe) settle(most int) error {
	for len(p.begun) > most {
		if err := <-p.begun[0]; err != nil {
			return err
		}
		p.begun = p.begun[1:]
		p.tell()
	}
	return nil
}

func (p *pipe) tell() {
	if p.done != nil {
		p.done()
	}
}

// However many batches are on their way, the log comes to what memlog has of the
// same batches one by one.
func TestBatchesOnTheirWayComeToTheSame(t *testing.T) {
	for _, keep := range []registry.Retention{
		workKeep,
		{Messages: 3, Versions: 3},
		{TopicBytes: 20 << 10},
		{TotalBytes: 50 << 10, Age: workKeep.Age},
	} {
		t.Run(fmt.Sprintf("%+v", keep), func(t *testing.T) {
			o := disklog.WithMemTable(disklog.Options{FS: vfs.NewMem(), Retention: keep, Recent: 10 << 10}, 64<<10)
			l, err := disklog.Open("log", o)
			require.NoError(t, err)
			m, w := memlog.New(memlog.Options{Retention: keep}), newWork(5)
			p := &pipe{Log: l}
			for n := range 400 {
				do := w.next()
				require.NoError(t, do(m))
				p.most = w.rng.IntN(4)
				require.NoError(t, do(p))
				if n%20 == 0 {
					require.NoError(t, p.settle(0))
					require.Equal(t, print(t, m), print(t, l))
				}
			}
			require.NoError(t, p.settle(0))
			require.Equal(t, print(t, m), print(t, l))
			closeLog(t, l)
			require.Equal(t, print(t, m), print(t, openLog(t, "log", o)))
		})
	}
}

// Retain and a new key come between batches, and an export and a backup have what
// is done.
func TestOtherChangesWhileBatchesAreOnTheirWay(t *testing.T) {
	disk := &breaker{name: ".log", kinds: syncs}
	fs := breakableFS(vfs.NewMem(), disk)
	l := openLog(t, "log", disklog.Options{FS: fs})
	m, w := memlog.New(memlog.Options{}), newWork(6)
	p := &pipe{Log: l, most: 4}
	for range 20 {
		do := w.next()
		require.NoError(t, do(m))
		require.NoError(t, do(p))
	}
	require.NoError(t, l.Retain(workKeep))
	require.NoError(t, p.settle(0))
	m.Retain(workKeep)
	require.Equal(t, print(t, m), print(t, l))
	key := ed25519.NewKeyFromSeed(make([]byte, 32))
	for range 4 {
		do := w.next()
		require.NoError(t, do(m))
		require.NoError(t, do(p))
	}
	require.NoError(t, l.SetKey(key))
	require.NoError(t, p.settle(0))
	require.True(t, key.Equal(l.Key()))
	require.Equal(t, print(t, m), print(t, l))

	before := print(t, m)
	release := disk.hold()
	b := &registry.Batch{Records: []*registry.Record{w.record()}}
	require.NoError(t, p.Append(b))
	require.Equal(t, before, print(t, l))
	release()
	require.NoError(t, p.settle(0)) // a backup has what is acknowledged
	require.NoError(t, l.Backup("backup"))
	require.NoError(t, m.Append(b))
	require.Equal(t, print(t, m), print(t, openLog(t, "backup", disklog.Options{FS: fs})))
}

// A batch for which there is no room leaves those before and behind it, and what
// is on its way counts.
func TestAFullDiskWhileBatchesAreOnTheirWay(t *testing.T) {
	fs, disk := newTightFS(), &breaker{name: ".log", kinds: syncs}
	l, err := disklog.Open("log", disklog.Options{FS: breakableFS(fs, disk), Reserve: reserve})
	require.NoError(t, err)
	m, w := memlog.New(memlog.Options{}), newWork(7)
	p := &pipe{Log: l, most: 9}
	for range 20 {
		both(t, l, m, w.next())
	}
	fs.set(reserve + 100<<10)
	release := disk.hold()
	begin := func() error {
		r := w.record()
		r.Payload = make([]byte, 60<<10)
		r.Seal()
		b := &registry.Batch{Records: []*registry.Record{r}}
		err := p.Append(b)
		if err == nil {
			require.NoError(t, m.Append(b))
		}
		return err
	}
	require.NoError(t, begin())
	require.ErrorIs(t, begin(), protocol.ErrStorageFull)
	fs.set(1 << 30)
	require.NoError(t, begin())
	release()
	require.NoError(t, p.settle(0))
	require.Equal(t, print(t, m), print(t, l))
	closeLog(t, l)
}

// All that is on its way when the disk fails has an unknown outcome, and what
// comes later is refused. At the next start there is a beginning of it.
func TestAFailureIsToldToAllOnTheirWay(t *testing.T) {
	for _, unsynced := range []int{0, 50, 100} {
		fs := vfs.NewCrashableMem()
		disk := &breaker{name: ".log", kinds: syncs, err: syscall.EIO}
		l, err := disklog.Open("log", disklog.Options{FS: breakableFS(fs, disk), Retention: workKeep})
		require.NoError(t, err)
		m, w := memlog.New(memlog.Options{Retention: workKeep}), newWork(8)
		for range 30 {
			both(t, l, m, w.next())
		}
		want := []string{print(t, m)}
		release := disk.hold()
		p := &pipe{Log: l, most: 9}
		for range 5 {
			b := &registry.Batch{Records: []*registry.Record{w.record(), w.record()}}
			require.NoError(t, m.Append(b))
			want = append(want, print(t, m))
			require.NoError(t, p.Append(b))
		}
		require.Equal(t, want[0], print(t, l))
		purged := make(chan error, 1)
		upTo := w.seq
		go func() { purged <- l.Purge("a", upTo) }()
		disk.broken.Store(true)
		release()
		var failed *disklog.FailedError
		for _, done := range p.begun {
			err := <-done
			require.ErrorIs(t, err, protocol.ErrUnknownOutcome)
			require.ErrorAs(t, err, &failed)
		}
		require.ErrorAs(t, <-purged, &failed)
		_, err = l.Begin(&registry.Batch{Records: []*registry.Record{w.record()}})
		require.ErrorAs(t, err, &failed)
		require.ErrorIs(t, err, protocol.ErrDraining)
		require.NotErrorIs(t, err, protocol.ErrUnknownOutcome)
		require.Equal(t, want[0], print(t, l), "readers go on")
		require.ErrorAs(t, l.Close(), &failed)

		disk.broken.Store(false)
		clone := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: unsynced, RNG: rand.New(rand.NewPCG(1, 1))})
		got := print(t, openLog(t, "log", disklog.Options{FS: clone, Retention: workKeep}))
		require.Contains(t, append(want, purgedOf(t, m, upTo)), got)
	}
}

func purgedOf(t *testing.T, m *memlog.Log, upTo protocol.Seq) string {
	t.Helper()
	require.NoError(t, m.Purge("a", upTo))
	return print(t, m)
}
