package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/pilotgo/pilotgo/internal/statefile"
	"github.com/pilotgo/pilotgo/protocol"
)

// Holder is a process that has a [File] open.
type Holder struct {
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Swarm string    `json:"swarm"`
	Since time.Time `json:"since"`
}

// LockedError is a file that another process, or another [File] of this one,
// keeps. It is protocol.ErrConflict.
type LockedError struct {
	Path   string
	Holder Holder // zero where it is not known
}

func (e *LockedError) Error() string {
	s := fmt.Sprintf("config file %s: in use by another agent", e.Path)
	if e.Holder.PID != 0 {
		s += fmt.Sprintf(" (process %d on %s, swarm %s, since %s)",
			e.Holder.PID, e.Holder.Host, e.Holder.Swarm, e.Holder.Since.UTC().Format(time.RFC3339))
	}
	return s
}

// Unwrap gives protocol.ErrConflict.
func (e *LockedError) Unwrap() error { return protocol.ErrConflict }

// Hint tells a person what to do.
func (e *LockedError) Hint() string {
	return "end the other agent, or give this one a file of its own"
}

// lock takes the lock of path and writes there who has it. The system gives it
// back when the process ends, however it does; its file stays, for its name is
// what all must agree on.
func lock(path, swarm string) (*os.File, error) {
	f, err := openLock(lockPath(path))
	if err != nil {
		return nil, fileError(path, err)
	}
	ok, err := statefile.TryLock(f)
	if err != nil {
		f.Close()
		return nil, fileError(path, err)
	}
	if !ok {
		defer f.Close()
		return nil, &LockedError{Path: path, Holder: holderOf(path)}
	}
	sign(f, path, swarm)
	return f, nil
}

// openLock opens a lock file; one of another user or on a read-only disk can only
// be read, and locked all the same. It follows no symlink: in a folder for all that
// could lead anywhere.
func openLock(path string) (*os.File, error) {
	f, err := openPlain(path, os.O_CREATE|os.O_RDWR, 0o644)
	if errors.Is(err, fs.ErrPermission) || err != nil && isReadOnly(err) {
		if f, err := openPlain(path, os.O_RDONLY, 0); err == nil {
			return f, nil
		}
	}
	return f, err
}

func lockPath(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".lock")
}

// holderPath is where the holder's name is. Where locks are mandatory nobody else
// could read it inside the locked file.
func holderPath(path string) string {
	if runtime.GOOS == "windows" {
		return lockPath(path) + ".holder"
	}
	return lockPath(path)
}

// sign is for people; a disk too full for it is no reason to refuse.
func sign(f *os.File, path, swarm string) {
	host, _ := os.Hostname()
	b, err := json.Marshal(Holder{PID: os.Getpid(), Host: host, Swarm: swarm, Since: time.Now().UTC().Truncate(time.Second)})
	if err != nil {
		return
	}
	b = append(b, '\n')
	if runtime.GOOS == "windows" {
		_ = os.WriteFile(holderPath(path), b, 0o644)
		return
	}
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt(b, 0)
	}
}

func holderOf(path string) (h Holder) {
	f, err := openPlain(holderPath(path), os.O_RDONLY, 0)
	if err != nil {
		return h
	}
	defer f.Close()
	if b, err := readAtMost(f, 4<<10); err != nil || json.Unmarshal(b, &h) != nil {
		return Holder{}
	}
	return h
}

// lockAll takes several locks or none.
func lockAll(swarm string, paths ...string) (unlock func(), err error) {
	var held []*os.File
	unlock = func() {
		for _, f := range held {
			f.Close()
		}
	}
	for _, p := range paths {
		f, err := lock(p, swarm)
		if err != nil {
			unlock()
			return nil, missingFolder(p, err)
		}
		held = append(held, f)
	}
	return unlock, nil
}

// missingFolder says which folder is missing, where that is the error.
func missingFolder(path string, err error) error {
	var file *FileError
	if errors.As(err, &file) && errors.Is(file.Err, fs.ErrNotExist) {
		return fileErrorf(protocol.ErrNotFound, path, "", "no folder %s: %w", filepath.Dir(path), fs.ErrNotExist)
	}
	return err
}
