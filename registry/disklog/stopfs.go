package disklog

import (
	"math"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// stopFS stands between the store and the files of its log, and the list of its
// files. Where one of them cannot be made or written, the store would panic in a
// way that takes the whole process with it, reads included. So the goroutine that
// meets the error stops here for good, and the alarm tells.
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
	return &stopFile{File: file, alarm: f.alarm}, nil
}

func (f *stopFS) wrap(name string, file vfs.File, err error) (vfs.File, error) {
	if !f.isLog(name) {
		return file, err
	}
	if err != nil {
		f.alarm.stop(err)
	}
	length := int64(0)
	if info, err := file.Stat(); err == nil {
		length = info.Size() // of one that is used again
	}
	return &stopFile{File: file, alarm: f.alarm, log: true, length: length}, nil
}

// stop tells of an error and does not return.
func (a *alarm) stop(err error) {
	a.fail(err)
	select {}
}

type stopFile struct {
	vfs.File
	alarm *alarm

	// Of a file of the store's log, which one goroutine writes:
	log    bool
	at     int64 // how far it is written
	length int64 // how long it is, or more
}

func (f *stopFile) check(err error) error {
	if err != nil {
		f.alarm.stop(err)
	}
	return nil
}

// Preallocate implements vfs.File. The store asks for tens of megabytes at once;
// Write gets what is needed next.
func (f *stopFile) Preallocate(int64, int64) error { return nil }

// lengthAhead is by how much a file of the store's log gets longer before it is
// written on. A sync then has no new length to bring to the disk, and takes about a
// third less. The store reads a log up to the first record that is none: behind
// the records of one that it uses again stand old ones, here zeros.
const lengthAhead = 1 << 20

// lengthen makes the file long enough for the next bytes, and for some behind them.
func (f *stopFile) lengthen(next int) {
	if f.at += int64(next); f.at <= f.length {
		return
	}
	length := f.at + lengthAhead
	if err := extend(f.Fd(), f.length, length-f.length); err != nil {
		length = math.MaxInt64 // Write does it, as far as there is room
	}
	f.length = length
}

// Write implements vfs.File.
func (f *stopFile) Write(p []byte) (int, error) {
	if f.log {
		f.lengthen(len(p))
	}
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
