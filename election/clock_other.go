//go:build !linux

package election

import "time"

// countsSuspend is false: the clocks that can be had here stop with the machine.
// A leader that wakes up after its lease believes in it for up to what was left;
// only the fence stands against what it writes then.
const countsSuspend = false

func suspended() (time.Duration, bool) { return 0, false }
