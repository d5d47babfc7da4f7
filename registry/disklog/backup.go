package disklog

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Backup writes a copy of the log, as of now, into a folder that is not there
// yet, while the log goes on. Where the file system can, files that do not
// change any more are linked, so that the copy takes little time and space.
//
// The copy holds everything, also the identity key. To restore it, open it or a
// copy of it: that takes a new epoch, because what came after the backup is lost.
func (l *Log) Backup(dir string) error {
	_, done, err := l.use()
	if err != nil {
		return err
	}
	defer done()
	if failed := l.alarm.err.Load(); failed != nil {
		return failed
	}
	// One at a time: another of the same name would remove what this one has so far.
	l.copying.Lock()
	defer l.copying.Unlock()
	fsys := l.folder.fs
	dir = fsys.PathJoin(dir) // without a slash behind it
	if _, err := fsys.Stat(dir); err == nil {
		return fmt.Errorf("backup to %s: there is something already; name a folder that is not there yet", dir)
	}
	f := &folder{fs: fsys, dir: dir + partial}
	err = l.backup(f)
	if err == nil {
		err = fsys.Rename(f.dir, dir)
	}
	if err == nil {
		err = syncDir(fsys, fsys.PathDir(dir))
	}
	if err != nil {
		return fmt.Errorf("backup to %s: %w", dir, errors.Join(err, fsys.RemoveAll(f.dir)))
	}
	return nil
}

func (l *Log) backup(f *folder) error {
	// What a backup that was cut short has left.
	if err := f.fs.RemoveAll(f.dir); err != nil {
		return err
	}
	if err := f.fs.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	if err := f.replace(fileRestored, fmt.Appendf(nil, "a copy of %s, made at %s\n", l.dir, l.o.Now().UTC())); err != nil {
		return err
	}
	if err := f.setFormat(""); err != nil {
		return err
	}
	if err := l.alarm.guard(func() error { return l.db.Checkpoint(f.path(dirStore), pebble.WithFlushedWAL()) }); err != nil {
		return l.damaged(err)
	}
	// Who checks the backup, as root perhaps, would make this and own it, and the
	// registry that is to serve from it could not take the folder.
	if err := f.write(f.fs.PathJoin(dirStore, "LOCK"), nil); err != nil {
		return err
	}
	return f.keepPrivate()
}
