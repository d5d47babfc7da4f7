//go:build unix

package cli

import (
	"os"
	"syscall"
)

// becomeProgram makes this process another program: signals, exit code and
// standard streams need no passing on.
func becomeProgram(path string, args []string) error {
	err := syscall.Exec(path, append([]string{path}, args...), os.Environ())
	return &os.PathError{Op: "exec", Path: path, Err: err}
}
