package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// storeFormat is the format of state files that this build writes. It reads all
// before it.
const storeFormat = 1

// store is the state file of a [File]: the truth about what is applied, of which
// target and version file are copies. Each save is on disk, whole, before it
// returns.
type store struct {
	path string
	fileState
}

// fileState is what the state file holds.
type fileState struct {
	Format int    `json:"format"`
	Swarm  string `json:"swarm"`

	// Current is applied. Previous was before it.
	Current  *kept `json:"current,omitempty"`
	Previous *kept `json:"previous,omitempty"`

	// Next is set from before the copies are touched until it is Current, or given
	// up: meanwhile the copies may be of the one or the other. With Undo it has
	// failed, and Current, or Before, is being put back.
	Next *kept `json:"next,omitempty"`
	Undo bool  `json:"undo,omitempty"`

	// Before is what the copies were when the first version came, where that is Next.
	Before *copies `json:"before,omitempty"`

	Highest uint64 `json:"highest,omitempty"`
	Pinned  bool   `json:"pinned,omitempty"`
}

// kept is a document as it is kept. JSON has its bytes as base64, so that
// nothing on the way can spell them anew.
type kept struct {
	Version uint64    `json:"version"`
	Digest  string    `json:"digest"`
	Config  []byte    `json:"config"`
	At      time.Time `json:"at"`

	Epoch protocol.EpochID `json:"epoch,omitempty"` // of the log that it came from
}

// copies are the contents of the two files; nil is no file.
type copies struct {
	Content []byte `json:"content"`
	Version []byte `json:"version"`
}

func keep(d *Document, at time.Time) *kept {
	return &kept{Version: d.Version, Digest: d.Digest.String(), Config: d.Config, At: at.UTC(), Epoch: d.Epoch}
}

// document is v as validators and commands see it.
func (v *kept) document() *Document {
	return &Document{Version: v.Version, Config: v.Config, Digest: DigestOf(v.Config), Epoch: v.Epoch}
}

func (v *kept) same(d *Document) bool {
	return v != nil && v.Version == d.Version && v.Digest == d.Digest.String()
}

// openStore reads a state file. None is an empty state; a damaged one is an
// error, since nothing that is lost may look like nothing that was there.
func openStore(path, swarm string) (*store, error) {
	s := &store{path: path, fileState: fileState{Format: storeFormat, Swarm: swarm}}
	b, err := readRegular(path, maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	if s.fileState, err = parseState(b, swarm); err != nil {
		return nil, &FileError{Code: protocol.CodeOf(err), Path: path, Err: err, hint: hintState}
	}
	return s, nil
}

const (
	// maxState is room for three versions and the copies, in base64.
	maxState = 7 * maxFile

	hintState = "if it cannot be put right, move it away: the agent then begins anew, and what is applied stays until the next version"
)

// parseState reads what save writes, and checks that the bytes kept are those
// that were published.
func parseState(b []byte, swarm string) (s fileState, err error) {
	if err := json.Unmarshal(b, &s); err != nil {
		return s, fmt.Errorf("%w: %w", protocol.ErrMalformed, err)
	}
	switch {
	case s.Format > storeFormat:
		return s, protocol.Errorf(protocol.ErrVersion, "its format %d is newer than this build, which knows %d", s.Format, storeFormat)
	case s.Format < 1:
		return s, protocol.Errorf(protocol.ErrMalformed, "no state of an agent")
	case s.Swarm != swarm:
		return s, protocol.Errorf(protocol.ErrConflict, "it is of the swarm %q", s.Swarm)
	}
	if s.Highest > protocol.MaxTerm { // nothing could ever be above it
		return s, protocol.Errorf(protocol.ErrMalformed, "no version can be %d, the highest", s.Highest)
	}
	for _, v := range []*kept{s.Current, s.Previous, s.Next} {
		if v == nil {
			continue
		}
		if v.Digest != DigestOf(v.Config).String() {
			return s, protocol.Errorf(protocol.ErrMalformed, "version %d does not have the digest %s", v.Version, v.Digest)
		}
		if v.Version == 0 || v.Version > protocol.MaxTerm {
			return s, protocol.Errorf(protocol.ErrMalformed, "no version can be %d", v.Version)
		}
	}
	return s, nil
}

// set saves a new state and then takes it over. After an error the state is what
// is on disk: most likely the old one.
func (s *store) set(next fileState) error {
	save, err := s.stage(next)
	if err == nil {
		defer save.discard()
		err = flush(save)
	}
	if err != nil {
		return err
	}
	return s.commit(save, next, true)
}

// stage prepares a save. No mode is kept: a state is for its agent alone.
func (s *store) stage(next fileState) (*staged, error) {
	b, err := json.Marshal(next)
	if err != nil {
		return nil, fileError(s.path, err)
	}
	return write(s.path, append(b, '\n'), 0o600, nil)
}

// commit is set for a save that is staged and flushed. If it is not to last, a
// power cut may undo it.
func (s *store) commit(save *staged, next fileState, last bool) error {
	do := save.rename
	if last {
		do = save.commit
	}
	if err := do(); err != nil {
		if again, failed := openStore(s.path, s.Swarm); failed == nil {
			s.fileState = again.fileState
		}
		return err
	}
	s.fileState = next
	return nil
}

// makeFolder makes the folder of a state file: it is pilotgo's own.
func makeFolder(path string) error {
	return fileError(path, os.MkdirAll(filepath.Dir(path), 0o700))
}
