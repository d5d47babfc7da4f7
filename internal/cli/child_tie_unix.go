//go:build unix && !linux

package cli

import "syscall"

// dieTogether: there is nothing like it here. A command that outlives its guard is
// killed by who started the guard, if that one lives.
func dieTogether(*syscall.SysProcAttr) {}

// adoptOrphans: nor is there this.
func adoptOrphans() {}
