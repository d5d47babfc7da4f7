package registry

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const linesPerSecond = 10

// lines writes log lines, but not more than a number of them a second: clients
// must not be able to fill a disk. What was left out is counted.
type lines struct {
	log *slog.Logger

	mu      sync.Mutex
	bucket  bucket
	dropped int
}

func newLines(log *slog.Logger) *lines { return &lines{log: log, bucket: newBucket(linesPerSecond)} }

func (l *lines) info(text string, args ...any) { l.line(slog.LevelInfo, text, args) }
func (l *lines) warn(text string, args ...any) { l.line(slog.LevelWarn, text, args) }

func (l *lines) line(level slog.Level, text string, args []any) {
	dropped, ok := l.pass(time.Now())
	if !ok {
		return
	}
	if dropped > 0 {
		args = append(args, "lines_left_out", dropped)
	}
	l.log.Log(context.Background(), level, text, args...)
}

func (l *lines) pass(now time.Time) (dropped int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bucket.lack(now, 1) > 0 {
		l.dropped++
		return 0, false
	}
	l.bucket.take(1)
	dropped, l.dropped = l.dropped, 0
	return dropped, true
}
