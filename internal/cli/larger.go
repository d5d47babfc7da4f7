package cli

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// largerName is the program that has the Extras.
const largerName = "pilotgo-registry"

// hand gives the command line over to the program that has what this one lacks.
// It returns only if that is not there or cannot be started; where a process
// cannot become another, with the exit code of it.
func (a *app) hand(what string) error {
	// Without this a pilotgo under the other's name would become itself for ever.
	if self := os.Args[0]; strings.TrimSuffix(filepath.Base(self), ".exe") == largerName {
		return &failure{
			code: codeIO, exit: exitError,
			message: self + " has the name of " + largerName + " and is pilotgo",
			hint:    "put what is built of cmd/" + largerName + " in its place",
		}
	}
	path, err := largerProgram()
	if err != nil {
		return &failure{
			code: codeIO, exit: exitError, cause: err,
			message: what + " needs the program " + largerName + ", which is neither beside this one nor on the path",
			hint:    "go install github.com/pilotgo/pilotgo/cmd/...@latest installs both; or use --store memory",
		}
	}
	return becomeProgram(path, a.args)
}

func largerProgram() (string, error) {
	name := largerName
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if self, err := os.Executable(); err == nil {
		for _, dir := range []string{filepath.Dir(self), resolvedDir(self)} {
			if path := filepath.Join(dir, name); isProgram(path) {
				return path, nil
			}
		}
	}
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrDot) {
		return "", err // not what happens to lie in the folder at hand
	}
	return path, err
}

// resolvedDir is where a link leads.
func resolvedDir(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return filepath.Dir(path)
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && (runtime.GOOS == "windows" || info.Mode()&0o111 != 0)
}
