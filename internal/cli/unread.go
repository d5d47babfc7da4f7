package cli

import (
	"context"
	"io"
	"os"
	"time"
)

// unreadPoll is how soon a watcher ends that is not needed any more.
const unreadPoll = 100 * time.Millisecond

// untilUnread ends the context, with errReaderGone, when the reader at the other
// end of a pipe goes away: a stream may have nothing to write for hours, and must
// not wait so long to learn it.
func untilUnread(ctx context.Context, w io.Writer) (context.Context, context.CancelFunc) {
	f, ok := w.(*os.File)
	if !ok || !isPipe(f) {
		return context.WithCancel(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		for ctx.Err() == nil {
			if unread(f, unreadPoll) {
				cancel(errReaderGone)
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

func isPipe(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0
}

// isTerminal tells whether people read w directly.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
