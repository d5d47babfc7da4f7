package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/pilotgo/pilotgo/internal/statefile"
)

// Everything pilotgo keeps is in one folder under Pilot's. Files of Pilot's own are
// read where that helps, and never written.
func (a *app) dir() string        { return filepath.Join(a.home, ".pilot", "pilotgo") }
func (a *app) pilotDir() string   { return filepath.Join(a.home, ".pilot") }
func (a *app) configFile() string { return filepath.Join(a.dir(), "config.json") }
func (a *app) bookFile() string   { return filepath.Join(a.dir(), "hosts.json") }

// settings are the keys of `config --set`; all values are texts, as pilotctl
// stores them.
type settings map[string]string

func (a *app) settings() (settings, error) { return readSettings(a.configFile()) }

// pilotSettings are those of a Pilot installation beside, if there is one. What
// cannot be read of them does not matter here.
func (a *app) pilotSettings() settings {
	s, err := readSettings(filepath.Join(a.pilotDir(), "config.json"))
	if err != nil {
		return nil
	}
	return s
}

func readSettings(path string) (settings, error) {
	var file map[string]any
	if err := readJSON(path, &file); err != nil {
		return nil, err
	}
	s := make(settings, len(file))
	for k, v := range file {
		if text, ok := v.(string); ok {
			s[k] = text
		} else {
			s[k] = string(marshal(v))
		}
	}
	return s, nil
}

// set stores settings beside those that are there; an empty value removes one.
func (a *app) set(change settings) error {
	return a.locked(func() error {
		s, err := a.settings()
		if err != nil {
			return err
		}
		for k, v := range change {
			if s[k] = v; v == "" {
				delete(s, k)
			}
		}
		return replaceFile(a.configFile(), s)
	})
}

// hostname is the name this node shows to others; it may be empty.
func (a *app) hostname() (string, error) {
	s, err := a.settings()
	if err != nil {
		return "", err
	}
	if name := s["hostname"]; name != "" {
		return name, nil
	}
	return a.pilotSettings()["hostname"], nil
}

// readJSON reads a file of pilotgo's; a missing one leaves to as it is.
func readJSON(path string, to any) error {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return stateError(err)
	}
	if err := json.Unmarshal(b, to); err != nil {
		return &failure{
			code:    "invalid_state",
			message: fmt.Sprintf("%s is damaged: %v", path, err),
			hint:    "repair the file, or move it away to begin anew",
			exit:    exitError,
			cause:   err,
		}
	}
	return nil
}

func stateError(err error) error {
	return &failure{
		code:    codeIO,
		message: err.Error(),
		hint:    "pilotgo keeps its state below $PILOT_HOME, the home folder by default: see that it can be written",
		exit:    exitError,
		cause:   err,
	}
}

// lockPatience is how long a process may hold the lock: it is held for one read
// and one write.
const (
	lockPatience = 5 * time.Second
	lockPoll     = 2 * time.Millisecond
)

// locked runs change while no other process of this node changes its state.
func (a *app) locked(change func() error) error {
	if err := os.MkdirAll(a.dir(), 0o700); err != nil {
		return stateError(err)
	}
	f, err := os.OpenFile(filepath.Join(a.dir(), "state.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return stateError(err)
	}
	defer f.Close() // gives the lock back
	for range lockPatience / lockPoll {
		ok, err := statefile.TryLock(f)
		if err != nil {
			return stateError(fmt.Errorf("lock %s: %w", f.Name(), err))
		}
		if ok {
			return change()
		}
		time.Sleep(lockPoll)
	}
	return stateError(fmt.Errorf("%s is held by another process", f.Name()))
}

// replaceFile writes v as JSON, so that readers see the old content or the new.
func replaceFile(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if err := statefile.Replace(path, append(b, '\n'), true); err != nil {
		return stateError(err)
	}
	return nil
}
