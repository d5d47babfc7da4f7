package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/pilotgo/pilotgo/protocol"
)

// tempMark is in the name of each temporary file beside a target: what has it
// and no process at work is a leftover.
const tempMark = ".pilotgo-"

// staged is new content beside the file that it is to replace. It may take its
// place once it has been flushed.
type staged struct {
	path, temp string
	file       *os.File // nil once it is flushed
}

// stage writes content beside path. The mode is that of the file there is, else
// mode.
func stage(path string, content []byte, mode fs.FileMode) (*staged, error) {
	old, err := os.Lstat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fileError(path, err)
	}
	if err := checkRegular(path, old); err != nil {
		return nil, err
	}
	return write(path, content, mode, old)
}

// write is stage for a path at which nothing, or old, is.
func write(path string, content []byte, mode fs.FileMode, old fs.FileInfo) (*staged, error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+tempMark+"*")
	if err != nil {
		return nil, fileError(path, err)
	}
	s := &staged{path: path, temp: f.Name(), file: f}
	if err := fill(f, content, mode, old); err != nil {
		s.discard()
		return nil, fileError(path, err)
	}
	return s, nil
}

// checkRegular refuses what is no file, or perhaps a stranger's.
func checkRegular(path string, old fs.FileInfo) error {
	if old == nil {
		return nil
	}
	if err := checkKind(path, old); err != nil {
		return err
	}
	return fileError(path, trust(path, old))
}

func checkKind(path string, old fs.FileInfo) error {
	switch {
	case old.Mode().IsRegular():
		return nil
	case old.IsDir():
		return fileErrorf(protocol.ErrConflict, path, "name a file, not a folder", "is a folder")
	}
	return fileErrorf(protocol.ErrConflict, path, "name a regular file", "is no regular file (%v)", old.Mode().Type())
}

// openPlain opens a file, and neither a symlink nor a pipe, whatever was there a
// moment ago. The error is not typed where it is the system's.
func openPlain(path string, flag int, mode fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, flag|plainly, mode)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = checkKind(path, info)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// fill writes the temporary file.
func fill(f *os.File, content []byte, mode fs.FileMode, old fs.FileInfo) error {
	_, err := f.Write(content)
	if err == nil && old != nil {
		mode = old.Mode().Perm()
		err = keepOwner(f, old)
	}
	if err == nil {
		err = f.Chmod(mode) // after a change of owner, which may clear bits
	}
	return err
}

// flush waits until all of them are on disk, which a file system can do in one go
// for those that ask at once. Nil ones are left out.
func flush(list ...*staged) error {
	errs := make([]error, len(list))
	var all sync.WaitGroup
	for i, s := range list {
		if s != nil {
			all.Go(func() { errs[i] = s.flush() })
		}
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *staged) flush() error {
	err := s.file.Sync()
	if closed := s.file.Close(); err == nil {
		err = closed
	}
	s.file = nil
	return fileError(s.path, err)
}

// commit puts the content in place, for good.
func (s *staged) commit() error {
	err := s.rename()
	if err == nil {
		err = fileError(s.path, syncFolder(filepath.Dir(s.path)))
	}
	return err
}

// rename puts the content in place; a power cut may undo it.
func (s *staged) rename() error { return fileError(s.path, os.Rename(s.temp, s.path)) }

// discard removes the temporary file, if it is there.
func (s *staged) discard() {
	if s == nil {
		return
	}
	if s.file != nil {
		s.file.Close()
	}
	os.Remove(s.temp)
}

// removeFile removes a file for good; it may be gone already.
func removeFile(path string) error {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = syncFolder(filepath.Dir(path))
	}
	return fileError(path, err)
}

// syncFolder makes a rename last. Windows cannot and need not; nor do some file
// systems know how.
func syncFolder(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if errors.Is(err, fs.ErrPermission) {
		return nil // a folder may be written to and not read
	}
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !isUnsyncable(err) {
		return err
	}
	return nil
}

// sweep removes what a process that ended in the middle left beside path: files
// named .BASE, the mark and digits. Only the holder of the lock may.
func sweep(path, mark string) error {
	dir, prefix := filepath.Dir(path), "."+filepath.Base(path)+mark
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrPermission) {
		return nil // a folder may be written to and not read
	}
	if err != nil {
		return fileError(dir, err)
	}
	for _, e := range list {
		digits, ok := strings.CutPrefix(e.Name(), prefix)
		if !ok || digits == "" || strings.Trim(digits, "0123456789") != "" || !e.Type().IsRegular() {
			continue
		}
		if err := removeFile(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// followOnce is where a path leads: the file of a symlink, or the path itself. A
// symlink to a symlink is an error, since replacing the second would cut the
// chain, and so is one that a stranger may have made.
func followOnce(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fileError(path, err)
	}
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode()&fs.ModeSymlink == 0 {
		return path, nil
	}
	if err == nil {
		err = trust(path, info)
	}
	if err != nil {
		return "", fileError(path, err)
	}
	to, err := os.Readlink(path)
	if err != nil {
		return "", fileError(path, err)
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(filepath.Dir(path), to)
	}
	if info, err := os.Lstat(to); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return "", fileErrorf(protocol.ErrInvalid, path, "name the file at the end of the symlinks", "leads to another symlink, %s", to)
	}
	return to, nil
}

// readFile reads a target as it is; nil where there is none. It does not follow
// symlinks, and reads no more than a document can have.
func readFile(path string) ([]byte, error) {
	b, err := readRegular(path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if b == nil {
		b = []byte{}
	}
	return b, err
}

// readRegular reads a file that is no symlink, nor perhaps a stranger's.
func readRegular(path string, most int) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, fileError(path, err)
	}
	if err := checkRegular(path, info); err != nil {
		return nil, err
	}
	f, err := openPlain(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, fileError(path, err)
	}
	defer f.Close()
	b, err := readAtMost(f, most)
	return b, fileError(path, err)
}

// maxFile is above what a registry lets through by far.
const maxFile = 64 << 20
