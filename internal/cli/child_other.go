//go:build !linux

package cli

import (
	"os"
	"time"
)

// reading is a time that all processes of this machine share. Here that is the
// wall clock: who sets it back prolongs what a guard believes of a lease.
type reading int64

func clock() reading { return reading(time.Now().UnixNano()) }

func selfPath() (string, error) { return os.Executable() }
