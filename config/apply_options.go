package config

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/protocol"
)

// FileOptions of a File. The zero value, with a Swarm, has the paths of the
// swarm-config recipe.
type FileOptions struct {
	Swarm string

	// Target is the file to keep; /tmp/swarm-config.json by default, as in the
	// recipe. Its folder must be there. If it is a symlink when the File is opened,
	// the file that it leads to is kept, and must not be a symlink too.
	Target string

	// VersionFile gets the version, as a line. By default it stands beside the
	// target and is named after it: swarm-config-version.txt. NoVersionFile is none.
	VersionFile string

	// State is the file of the File's own. By default it is in the folder config of
	// client.StateDir, under a name made of swarm and target.
	State string

	// Mode is that of a target or version file that is new, 0644 by default. One
	// that is there keeps its own.
	Mode fs.FileMode

	// Validator may refuse a document before anything is changed. It has
	// ValidateTimeout for it, a minute by default.
	Validator       Validator
	ValidateTimeout time.Duration

	// After runs when target and version file have changed, Health then tells
	// whether the document does well. Commands find the target in PILOTGO_FILE. When
	// the version before is put back, After runs for that; where there was none, but
	// a file, without a PILOTGO_VERSION; where there was no file, not at all.
	//
	// After also runs, and may fail without consequence, when a target that was
	// changed by others is put right.
	After  *Exec
	Health *Health

	// Retained looks up a version that the registry still has; ErrNotFound is none.
	// It is asked when the version file names another version than the state does.
	// Nil: only the version before the current one is known.
	Retained func(ctx context.Context, version uint64) (*Document, error)

	Logger *slog.Logger // nil is silent
}

// NoVersionFile as a FileOptions.VersionFile keeps none.
const NoVersionFile = "-"

// DefaultTarget is the file that the swarm-config recipe writes.
func DefaultTarget() string {
	const name = "swarm-config.json"
	if runtime.GOOS == "windows" {
		return filepath.Join(os.TempDir(), name)
	}
	return "/tmp/" + name
}

// validate checks the options and fills in defaults.
func (o FileOptions) validate() (FileOptions, error) {
	if err := ValidName(o.Swarm); err != nil {
		return o, fmt.Errorf("file: %w", err)
	}
	switch {
	case o.ValidateTimeout < 0:
		return o, protocol.Errorf(protocol.ErrInvalid, "file: ValidateTimeout is not negative")
	case o.Mode&^0o777 != 0:
		return o, protocol.Errorf(protocol.ErrInvalid, "file: Mode is permission bits")
	}
	if o.After != nil {
		if err := o.After.validate(); err != nil {
			return o, err
		}
	}
	if o.Health != nil {
		health, err := o.Health.validate()
		if err != nil {
			return o, err
		}
		o.Health = &health
	}
	return o.fill()
}

func (o FileOptions) fill() (_ FileOptions, err error) {
	if o.Target == "" {
		o.Target = DefaultTarget()
	}
	if o.VersionFile == "" {
		o.VersionFile = strings.TrimSuffix(o.Target, filepath.Ext(o.Target)) + "-version.txt"
	}
	if o.State == "" {
		if o.State, err = o.defaultState(); err != nil {
			return o, err
		}
	}
	if o.State, err = filepath.Abs(o.State); err != nil {
		return o, fileError(o.State, err)
	}
	if o.Mode == 0 {
		o.Mode = 0o644
	}
	if o.ValidateTimeout == 0 {
		o.ValidateTimeout = time.Minute
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// defaultState is another file for each swarm and target.
func (o FileOptions) defaultState() (string, error) {
	dir, err := client.StateDir("")
	if err != nil {
		return "", err
	}
	target, err := filepath.Abs(o.Target)
	if err != nil {
		return "", fileError(o.Target, err)
	}
	sum := sha256.Sum256([]byte(o.Swarm + "\x00" + target))
	name := url.PathEscape(o.Swarm)
	name = strings.Trim(name[:min(len(name), 100)], ".") + "-" + hex.EncodeToString(sum[:6]) + ".json"
	return filepath.Join(dir, "config", name), nil
}
