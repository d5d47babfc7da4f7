//go:build !unix

package cli

import (
	"os"
	"time"
)

// unread cannot tell here before something is written.
func unread(_ *os.File, wait time.Duration) bool {
	time.Sleep(wait)
	return false
}
