// Package statefile keeps small files that several processes read and write.
package statefile

import (
	"os"
	"path/filepath"
	"runtime"
)

// Replace writes a file so that whoever opens the path sees the old content
// or the new one, whole, also after a power cut if sync is set. It follows a
// symlink at path and leaves nothing behind when it fails.
func Replace(path string, data []byte, sync bool) error {
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
