//go:build !unix

package config

import (
	"os"
	"os/exec"
)

// ownGroup does nothing: here a command is killed alone.
func ownGroup(*exec.Cmd) {}

func killGroup(p *os.Process) error { return p.Kill() }
