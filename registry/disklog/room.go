package disklog

import (
	"fmt"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ballastSize is what is set aside on the disk for the case that it fills
// between two looks at it.
const ballastSize = 32 << 20

// room watches over the space that is left on the disk. Appends are refused
// before it is used up, because a store that cannot write its own log is lost
// for this process. If others fill the disk all at once, the ballast makes way,
// and appends are refused until it is back.
type room struct {
	folder  folder // the file system as it is, without the wrapping of fs
	fs      vfs.FS // for the store
	reserve uint64 // 0 = nobody watches
	ballast atomic.Bool
}

func newRoom(base vfs.FS, dir string, reserve int64) *room {
	r := &room{folder: folder{fs: base, dir: dir}, fs: base}
	if reserve > 0 {
		r.reserve = uint64(reserve)
		r.fs = vfs.OnDiskFull(base, r.makeWay)
	}
	return r
}

// makeWay is called when a write found no space, and before it is tried again.
func (r *room) makeWay() {
	if r.ballast.CompareAndSwap(true, false) {
		_ = r.folder.fs.Remove(r.folder.path(fileBallast))
	}
}

// check refuses to use up what is left. More than size bytes are about to be
// written.
func (r *room) check(size int64) error {
	if r.reserve == 0 {
		return nil
	}
	need := r.reserve + uint64(size)
	if !r.ballast.Load() {
		need += ballastSize
	}
	usage, err := r.folder.fs.GetDiskUsage(r.folder.dir)
	if err == nil && usage.AvailBytes < need {
		return &FullError{r.folder.dir, fmt.Errorf("%d MiB are left on its disk, and %d MiB are kept free", usage.AvailBytes>>20, need>>20)}
	}
	if r.ballast.Load() {
		return nil
	}
	if err := r.stow(); err != nil {
		return &FullError{r.folder.dir, err}
	}
	return nil
}

// stow puts the ballast in place.
func (r *room) stow() error {
	file, err := r.folder.fs.Create(r.folder.path(fileBallast), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	// Systems that cannot set space aside have only the reserve.
	err = file.Preallocate(0, ballastSize)
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		_ = r.folder.fs.Remove(r.folder.path(fileBallast))
		return err
	}
	r.ballast.Store(true)
	return nil
}
