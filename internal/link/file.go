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
		ok, err := tryLock(f)
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

// replaceFile writes a file so that whoever opens the path sees the old content
// or the new one, whole, also after a power cut if sync is set. It follows a
// symlink at path and leaves nothing behind when it fails.
func replaceFile(path string, data []byte, sync bool) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone already where all went well
	_, err = f.Write(data)
	if err == nil && sync {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err == nil && sync {
		err = syncDir(dir)
	}
	return err
}

// syncDir makes a rename last. Windows cannot and need not.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
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
