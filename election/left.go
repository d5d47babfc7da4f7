package election

import "time"

// Left is how long until the lease ends, by Options.Clock; 0 when it is over. All
// work must have stopped by then; the Context ends Timing.Stop before. It is for
// handing the deadline to another process, which then needs nobody to stop it.
func (l *Leadership) Left() time.Duration {
	return max(0, instant(l.until.Load()).Sub(instant(l.m.o.Clock())))
}
