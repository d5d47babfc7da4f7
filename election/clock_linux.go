package election

import (
	"time"

	"golang.org/x/sys/unix"
)

// countsSuspend is whether newClock goes on while the machine is suspended.
const countsSuspend = true

// suspended is how long the machine has been suspended since it was started. It
// is what the one clock that counts this is ahead of the one that does not.
func suspended() (time.Duration, bool) {
	// Between the readings the thread may have to wait; then they tell nothing.
	for range 3 {
		before, boot, after := read(unix.CLOCK_MONOTONIC), read(unix.CLOCK_BOOTTIME), read(unix.CLOCK_MONOTONIC)
		if after-before < napSize/4 {
			return boot - after, true
		}
	}
	return 0, false
}

func read(clock int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		panic(err) // every kernel that Go runs on has both
	}
	return time.Duration(t.Nano())
}
