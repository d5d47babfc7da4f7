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
	return fmt.Sprintf("log %s is in use by %s", e.Dir, by)
}

// Name is a word for programs.
func (e *InUseError) Name() string { return "in_use" }

// Hint says what to do.
func (e *InUseError) Hint() string { return "stop that first, or use another folder" }

// ForeignError says that a folder is not a log's.
type ForeignError struct {
	Dir    string
	Reason string
}

// Error implements error.
func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s is not a registry's log: %s", e.Dir, e.Reason)
}

// Name is a word for programs.
func (e *ForeignError) Name() string { return "foreign_folder" }

// Hint says what to do.
func (e *ForeignError) Hint() string { return "name an empty folder, or one that a registry made" }

// NewerFormatError says that a later version of this program wrote a folder.
type NewerFormatError struct {
	Dir        string
	Have, Know int
}

// Error implements error.
func (e *NewerFormatError) Error() string {
	return fmt.Sprintf("log %s has format %d, and this program knows formats up to %d", e.Dir, e.Have, e.Know)
}

// Name is a word for programs.
func (e *NewerFormatError) Name() string { return "newer_format" }

// Hint says what to do.
func (e *NewerFormatError) Hint() string {
	return "this program is older than the log: upgrade it, or restore a backup from before"
}

// DamagedError says that a folder, or a part of it, does not hold what was
// written to it.
type DamagedError struct {
	Dir string
	Err error
}

// Error implements error.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("log %s is damaged: %v", e.Dir, e.Err)
}

// Name is a word for programs.
func (e *DamagedError) Name() string { return "damaged" }

// Hint says what to do.
func (e *DamagedError) Hint() string {
	return "check the folder for all that is wrong, and serve from a copy of the newest backup, which takes a new epoch"
}

// Unwrap is what was found.
func (e *DamagedError) Unwrap() error { return e.Err }

// FailedError says that the disk refused a write after which it cannot be told
// what is stored. The log goes on serving reads, and takes nothing more until
// the process has ended and the folder is opened anew. It is a
// protocol.ErrDraining, which sends clients to the registry that does so.
type FailedError struct {
	Dir string
	Err error
}

// Error implements error.
func (e *FailedError) Error() string {
	return fmt.Sprintf("log %s failed: %v", e.Dir, e.Err)
}

// Hint says what to do.
func (e *FailedError) Hint() string {
	return "mend the disk and restart the registry; what was acknowledged is safe"
}

// Unwrap is what clients are told, and the disk's error.
func (e *FailedError) Unwrap() []error { return []error{protocol.ErrDraining, e.Err} }

// FullError says that there is too little space for a batch, of which nothing is
// stored. It is a protocol.ErrStorageFull that does not name the folder: clients
// are told that one.
type FullError struct {
	Dir string
	Err error
}

// Error implements error.
func (e *FullError) Error() string { return fmt.Sprintf("no space for log %s: %v", e.Dir, e.Err) }

// Hint says what to do.
func (e *FullError) Hint() string {
	return "make room on that disk; publishes go on by themselves then"
}

// Unwrap is what clients are told, and what was found.
func (e *FullError) Unwrap() []error {
	return []error{protocol.Errorf(protocol.ErrStorageFull, "no space for the log"), e.Err}
}

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
