package disklog

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/pilotgo/pilotgo/protocol"
)

// InUseError says that another process, or another Log of this one, has the
// folder open.
type InUseError struct {
	Dir    string
	Holder string // who, as that process wrote it down; may be empty
}

// Error implements error.
func (e *InUseError) Error() string {
	by := "another process"
	if e.Holder != "" {
		by = e.Holder
	}
	return fmt.Sprintf("log %s is in use by %s: stop it first, or use another folder", e.Dir, by)
}

// ForeignError says that a folder is not a log's.
type ForeignError struct {
	Dir    string
	Reason string
}

// Error implements error.
func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s is not a registry's log (%s): name an empty folder, or one that a registry made", e.Dir, e.Reason)
}

// NewerFormatError says that a later version of this program wrote a folder.
type NewerFormatError struct {
	Dir        string
	Have, Know int
}

// Error implements error.
func (e *NewerFormatError) Error() string {
	return fmt.Sprintf("log %s has format %d, and this program knows formats up to %d: upgrade it", e.Dir, e.Have, e.Know)
}

// DamagedError says that a folder, or a part of it, does not hold what was
// written to it.
type DamagedError struct {
	Dir string
	Err error
}

// Error implements error.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("log %s is damaged: %v: look at it with Check, and restore the newest backup; a restored log has a new epoch", e.Dir, e.Err)
}

// Unwrap is what was found.
func (e *DamagedError) Unwrap() error { return e.Err }

// FailedError says that the disk refused a write after which it cannot be told
// what is stored. The log goes on serving reads, and takes nothing more until
// the process has ended and the folder is opened anew.
type FailedError struct {
	Dir string
	Err error
}

// Error implements error.
func (e *FailedError) Error() string {
	return fmt.Sprintf("log %s failed: %v: mend the disk and restart the registry; acknowledged messages are safe", e.Dir, e.Err)
}

// Unwrap is the disk's error.
func (e *FailedError) Unwrap() error { return e.Err }

// damaged makes a DamagedError of what the store says about damage.
func (l *Log) damaged(err error) error {
	if err != nil && pebble.IsCorruptionError(err) {
		return &DamagedError{Dir: l.dir, Err: err}
	}
	return err
}

// uncertain tells those who wait for an append that failed half way.
func uncertain(err error) error {
	return &uncertainError{err}
}

type uncertainError struct{ err error }

func (e *uncertainError) Error() string   { return e.err.Error() }
func (e *uncertainError) Unwrap() []error { return []error{protocol.ErrUnknownOutcome, e.err} }
