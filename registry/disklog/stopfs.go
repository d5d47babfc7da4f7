package disklog

import (
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// stopFS stands between the store and the files of its log, and the list of its
// files. Where one of them cannot be made or written, the store would panic in a
// way that takes the whole process with it, reads included. So the goroutine that meets the error stops
// here for good, and the alarm tells.
type stopFS struct {
	vfs.FS
	alarm *alarm
}

func (f *stopFS) isLog(name string) bool {
	return strings.HasSuffix(f.PathBase(name), ".log")
}

// Create implements vfs.FS.
func (f *stopFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, c)
	return f.wrap(name, file, err)
}

// ReuseForWrite implements vfs.FS.
func (f *stopFS) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.ReuseForWrite(from, to, c)
	return f.wrap(to, file, err)
}

// OpenDir implements vfs.FS.
func (f *stopFS) OpenDir(name string) (vfs.File, error) {
	file, err := f.FS.OpenDir(name)
	if err != nil || f.PathBase(name) != dirStore {
		return file, err
	}
	return &stopFile{file, f.alarm}, nil
}

func (f *stopFS) wrap(name string, file vfs.File, err error) (vfs.File, error) {
	if !f.isLog(name) {
		return file, err
	}
	if err != nil {
		f.alarm.stop(err)
	}
	return &stopFile{file, f.alarm}, nil
}

// stop tells of an error and does not return.
func (a *alarm) stop(err error) {
	a.fail(err)
	select {}
}

type stopFile struct {
	vfs.File
	alarm *alarm
}

func (f *stopFile) check(err error) error {
	if err != nil {
		f.alarm.stop(err)
	}
	return nil
}

// Write implements vfs.File.
func (f *stopFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	return n, f.check(err)
}

// Sync implements vfs.File.
func (f *stopFile) Sync() error { return f.check(f.File.Sync()) }

// SyncData implements vfs.File.
func (f *stopFile) SyncData() error { return f.check(f.File.SyncData()) }

// SyncTo implements vfs.File.
func (f *stopFile) SyncTo(n int64) (bool, error) {
	full, err := f.File.SyncTo(n)
	return full, f.check(err)
}

// Close implements vfs.File.
func (f *stopFile) Close() error { return f.check(f.File.Close()) }
