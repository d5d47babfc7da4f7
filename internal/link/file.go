package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/pilotgo/pilotgo/internal/statefile"
	"github.com/pilotgo/pilotgo/protocol"
)

const (
	lockWait = 2 * time.Second
	lockPoll = 5 * time.Millisecond
)

// lock takes the lock file path+".lock", making it and its folder. A process
// that ends, however, gives it up. It waits lockWait for another process, and
// not beyond ctx.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for range lockWait / lockPoll {
		ok, err := statefile.TryLock(f)
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		if ok {
			return func() { f.Close() }, nil
		}
		select {
		case <-time.After(lockPoll):
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		}
	}
	f.Close()
	return nil, fmt.Errorf("lock %s: held by another process", f.Name())
}

// maxFile is far above what any file here needs.
const maxFile = 1 << 20

// readPrivate reads a file that nobody but its owner may see, through a symlink
// if it is one. A file that others may open is ErrInvalid. A path with nothing
// at it is fs.ErrNotExist, one with a dangling symlink is not.
func readPrivate(path string) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		// What is there now and no symlink has been made in between.
		if at, lerr := os.Lstat(path); lerr == nil && at.Mode()&fs.ModeSymlink != 0 {
			return nil, protocol.Errorf(protocol.ErrInvalid, "%s is a symlink to nowhere", path)
		}
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, protocol.Errorf(protocol.ErrInvalid, "%s is not a file", path)
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		return nil, protocol.Errorf(protocol.ErrInvalid,
			"%s may be opened by others (mode %04o): run chmod 600 on it", path, info.Mode().Perm())
	case info.Size() > maxFile:
		return nil, protocol.Errorf(protocol.ErrInvalid, "%s is too large", path)
	}
	return io.ReadAll(f)
}
