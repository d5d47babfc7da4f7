package disklog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pilotgo/pilotgo/protocol"
)

// What lies in a folder; doc.go tells of each.
const (
	fileFormat   = "format"
	fileHolder   = "holder"
	fileWitness  = "head"
	fileBallast  = "ballast"
	fileRestored = "restored"
	dirStore     = "store"
)

const (
	formatText = "pilotgo registry log, format "
	unfinished = ", unfinished" // behind it until a new log is complete

	partial = ".partial" // ends the name of what is being made
)

// folder is the place of a log, which one process has at a time.
type folder struct {
	fs    vfs.FS
	dir   string
	lock  *pebble.Lock
	fresh bool // the log is not complete yet
	old   bool // of an older format
}

func (f *folder) path(name string) string { return f.fs.PathJoin(f.dir, name) }

// openFolder takes the folder for this process. One that is not there, or is
// empty, is made into a log's if create is set.
func openFolder(fsys vfs.FS, dir string, create bool) (f *folder, err error) {
	f = &folder{fs: fsys, dir: dir}
	if err := f.checkFormat(create); err != nil {
		return nil, err
	}
	if f.fresh {
		if err := fsys.MkdirAll(f.path(dirStore), 0o700); err != nil {
			return nil, err
		}
	}
	if create {
		if err := f.keepPrivate(); err != nil {
			return nil, err
		}
	}
	f.lock, err = pebble.LockDirectory(f.path(dirStore), fsys)
	if err != nil {
		return nil, f.notLocked(err)
	}
	if f.fresh {
		if err := f.clear(); err != nil {
			return nil, errors.Join(err, f.lock.Close())
		}
	}
	host, _ := os.Hostname()
	_ = f.write(fileHolder, fmt.Appendf(nil, "process %d on %s since %s\n", os.Getpid(), host, time.Now().UTC().Format(time.RFC3339)))
	return f, nil
}

// notLocked tells why the folder could not be taken.
func (f *folder) notLocked(err error) error {
	if _, gone := f.fs.Stat(f.path(dirStore)); errors.Is(gone, fs.ErrNotExist) {
		return &DamagedError{f.dir, gone}
	}
	// The file that is locked may be somebody else's, or on a disk that is read-only:
	// then nobody need have it.
	if file := (*fs.PathError)(nil); errors.As(err, &file) {
		return fmt.Errorf("log %s: %w", f.dir, err)
	}
	holder, _ := f.read(fileHolder)
	return &InUseError{Dir: f.dir, Holder: strings.TrimSpace(string(holder))}
}

// keepPrivate lets nobody but the owner into the store, where the identity key
// lies: the folder may have been made by hand, or copied without its modes.
func (f *folder) keepPrivate() error {
	if vfs.Root(f.fs) != vfs.Default {
		return nil
	}
	store := f.path(dirStore)
	info, err := os.Lstat(store)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the lock tells
	}
	if err != nil {
		return err
	}
	// What is left of a store that was not finished is removed. Somebody may have
	// put a link there, for us to remove other things, or a folder to look into.
	if f.fresh && (!info.IsDir() || !ownedByUser(info)) {
		return &ForeignError{f.dir, "its store was made by another user, or is no folder"}
	}
	return private(store)
}

// private takes a folder from all but its owner.
func private(dir string) error {
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm()&0o077 == 0 || runtime.GOOS == "windows" {
		return err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("%s is open to other users: %w", dir, err)
	}
	return nil
}

// checkFormat makes sure that the folder is a log's, and of a format that this
// program knows.
func (f *folder) checkFormat(create bool) error {
	text, err := f.read(fileFormat)
	if errors.Is(err, fs.ErrNotExist) {
		return f.checkEmpty(create)
	}
	if err != nil {
		return err
	}
	format, fresh, ok := parseFormat(string(text))
	switch {
	case !ok:
		return &ForeignError{f.dir, "its format file is not ours"}
	case format > Format:
		return &NewerFormatError{f.dir, format, Format}
	case fresh && !create:
		return &ForeignError{f.dir, "its making was not finished"}
	}
	f.fresh, f.old = fresh, format < Format
	return nil
}

// parseFormat reads a format file.
func parseFormat(text string) (format int, fresh, ok bool) {
	text, ok = strings.CutPrefix(text, formatText)
	if !ok {
		return 0, false, false
	}
	text, fresh = strings.CutSuffix(strings.TrimSuffix(text, "\n"), unfinished)
	format, err := strconv.Atoi(text)
	return format, fresh, err == nil && format > 0
}

// setFormat says that the folder is a log's.
func (f *folder) setFormat(suffix string) error {
	return f.replace(fileFormat, fmt.Appendf(nil, "%s%d%s\n", formatText, Format, suffix))
}

// checkEmpty makes a new log's folder out of nothing.
func (f *folder) checkEmpty(create bool) error {
	names, err := f.fs.List(f.dir)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case slices.ContainsFunc(names, func(n string) bool { return n != fileFormat+partial }):
		return &ForeignError{f.dir, "it holds other things and no format file"}
	case !create:
		return &ForeignError{f.dir, "there is nothing in it"}
	}
	if err := f.fs.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	// The name of the folder must last too.
	if err := syncDir(f.fs, f.fs.PathDir(f.dir)); err != nil {
		return err
	}
	f.fresh = true
	return f.setFormat(unfinished)
}

// clear removes what is left of a store that was not finished.
func (f *folder) clear() error {
	names, err := f.fs.List(f.path(dirStore))
	for _, name := range names {
		if name != "LOCK" && err == nil {
			err = f.fs.Remove(f.fs.PathJoin(f.path(dirStore), name))
		}
	}
	return err
}

func (f *folder) close() error {
	_ = f.fs.Remove(f.path(fileHolder))
	return f.lock.Close()
}

func (f *folder) read(name string) ([]byte, error) {
	file, err := f.fs.Open(f.path(name))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(file)
}

func (f *folder) has(name string) bool {
	_, err := f.fs.Stat(f.path(name))
	return err == nil
}

// write writes a file that need not outlive a power cut.
func (f *folder) write(name string, data []byte) error {
	file, err := f.fs.Create(f.path(name), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Close())
}

// replace writes a file so that it is there whole or not at all.
func (f *folder) replace(name string, data []byte) error {
	file, err := f.fs.Create(f.path(name+partial), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := f.fs.Rename(f.path(name+partial), f.path(name)); err != nil {
		return err
	}
	return syncDir(f.fs, f.dir)
}

func syncDir(fsys vfs.FS, dir string) error {
	d, err := fsys.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// witness is a second place where the head is noted, outside the store: when the
// store comes back with less, acknowledged messages were lost. It is written
// after each change and never synced, so it tells of every loss but one in which
// the system itself went down.
type witness struct {
	file vfs.File
	buf  [witnessSize]byte
}

const witnessSize = 20 // epoch, head, CRC-32C of both

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (f *folder) openWitness() (*witness, error) {
	file, err := f.fs.OpenReadWrite(f.path(fileWitness), vfs.WriteCategoryUnspecified)
	if errors.Is(err, fs.ErrNotExist) {
		file, err = f.fs.Create(f.path(fileWitness), vfs.WriteCategoryUnspecified)
	}
	if err != nil {
		return nil, err
	}
	return &witness{file: file}, nil
}

// readWitness is 0 where there is none of this epoch.
func (f *folder) readWitness(e protocol.EpochID) protocol.Seq {
	b, _ := f.read(fileWitness)
	if len(b) != witnessSize || crc32.Checksum(b[:16], castagnoli) != binary.BigEndian.Uint32(b[16:]) {
		return 0
	}
	if protocol.EpochID(binary.BigEndian.Uint64(b)) != e {
		return 0
	}
	return protocol.Seq(binary.BigEndian.Uint64(b[8:]))
}

// note never fails: without a witness there is only less to compare with.
func (w *witness) note(e protocol.EpochID, head protocol.Seq) {
	binary.BigEndian.PutUint64(w.buf[:], uint64(e))
	binary.BigEndian.PutUint64(w.buf[8:], uint64(head))
	binary.BigEndian.PutUint32(w.buf[16:], crc32.Checksum(w.buf[:16], castagnoli))
	_, _ = w.file.WriteAt(w.buf[:], 0)
}
