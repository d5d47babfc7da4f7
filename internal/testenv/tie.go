package testenv

import (
	"os"
	"strconv"
)

// parentVariable is the process id of the test, for the programs it starts.
const parentVariable = "PILOTGO_TEST_PARENT"

// Parent is a variable for the environment of programs that call [DieWithParent].
func Parent() (name, value string) { return parentVariable, strconv.Itoa(os.Getpid()) }

// DieWithParent has this process killed once the test is gone that Parent was
// called in, however that ends: one that is killed ends nothing that it has
// started. It is for programs that a test binary is itself, and does nothing for
// others, nor outside of Linux.
func DieWithParent() {
	if pid, err := strconv.Atoi(os.Getenv(parentVariable)); err == nil {
		dieWith(pid)
	}
}
