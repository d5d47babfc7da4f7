package config

import (
	"fmt"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// ConflictError says that somebody else published first. It is
// protocol.ErrConflict.
type ConflictError struct {
	Swarm   string
	Version uint64 // that was to be published
	Current uint64 // the highest version there is, which may be staged
	Expect  uint64 // that the caller had expected instead, if so
}

func (e *ConflictError) Error() string {
	s := fmt.Sprintf("config %q: version conflict: current is %d", e.Swarm, e.Current)
	switch {
	case e.Expect == None:
		s += ", expected none"
	case e.Expect != 0:
		s += fmt.Sprintf(", expected %d", e.Expect)
	case e.Version != 0:
		s += fmt.Sprintf(", tried %d", e.Version)
	}
	return s
}

// Unwrap gives the code.
func (e *ConflictError) Unwrap() error { return protocol.ErrConflict }

// Hint tells a person what to do.
func (e *ConflictError) Hint() string {
	return "read the current version, take its changes over, and publish again"
}

// SupersededError says that a version that was waited for has been replaced by a
// higher one. It is protocol.ErrConflict.
type SupersededError struct {
	Swarm           string
	Version, Latest uint64
}

func (e *SupersededError) Error() string {
	return fmt.Sprintf("config %q: version %d was replaced by %d", e.Swarm, e.Version, e.Latest)
}

// Unwrap gives the code.
func (e *SupersededError) Unwrap() error { return protocol.ErrConflict }

// StuckError says that an Apply went on after Follow was to end, and that Follow had
// to wait for it.
type StuckError struct {
	Version uint64        // that was applied
	Took    time.Duration // since the Apply began
	Late    time.Duration // since Follow was to end
}

func (e *StuckError) Error() string {
	return fmt.Sprintf("the Apply of version %d took %v, and %v of that after it was told to end", e.Version, e.Took, e.Late)
}

// LostRolloutError says that the registry's log was lost or replaced while a rollout
// was driven, and that the new one does not have it. Agents keep what they have: the
// version, where the rollout had reached them. It is protocol.ErrWrongEpoch.
type LostRolloutError struct {
	Swarm   string
	Version uint64
	Epoch   protocol.EpochID // of the new log
}

func (e *LostRolloutError) Error() string {
	return fmt.Sprintf("config %q: the rollout of version %d was lost: the registry has another log, of epoch %s", e.Swarm, e.Version, e.Epoch)
}

// Unwrap gives the code.
func (e *LostRolloutError) Unwrap() error { return protocol.ErrWrongEpoch }

// Hint tells a person what to do.
func (e *LostRolloutError) Hint() string {
	return "agents keep what they have: publish the version that all are to go back to, and begin the rollout anew"
}

func (s *Swarm) noVersion(version uint64) error {
	if version == 0 {
		return protocol.Errorf(protocol.ErrNotFound, "config %q: no version was published, or none is retained", s.name)
	}
	return protocol.Errorf(protocol.ErrNotFound, "config %q: no version %d, or it is not retained any more", s.name, version)
}
