package testenv_test

import (
	"bufio"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/internal/testenv"
)

// TestMain is also a program of a test, which tells that it is there and goes on.
func TestMain(m *testing.M) {
	if os.Getenv("HELPER") != "" {
		testenv.DieWithParent()
		os.Stdout.WriteString("ready\n")
		select {}
	}
	os.Exit(m.Run())
}

// A test that is killed takes along what it started, also what a shell between them
// started and left behind.
func TestProgramsDieWithTheirTest(t *testing.T) {
	testenv.Need(t, "linux", runtime.GOOS == "linux", "elsewhere nothing ties a process to another")
	self, err := os.Executable()
	require.NoError(t, err)
	for name, line := range map[string][]string{
		"by itself":      {self},
		"behind a shell": {"sh", "-c", `"$0" & wait`, self},
	} {
		t.Run(name, func(t *testing.T) {
			read, write, err := os.Pipe() // held open by all of them, and by nobody else
			require.NoError(t, err)
			defer read.Close()
			middle := exec.Command("sleep", "1000") // stands for the test
			require.NoError(t, middle.Start())
			child := testenv.Tie(exec.Command(line[0], line[1:]...))
			child.Env = append(os.Environ(), "HELPER=1", "PILOTGO_TEST_PARENT="+strconv.Itoa(middle.Process.Pid))
			child.Stdout = write
			require.NoError(t, child.Start())
			require.NoError(t, write.Close())
			out := bufio.NewReader(read)
			ready, err := out.ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, "ready\n", ready)

			require.NoError(t, middle.Process.Kill())
			_ = middle.Wait()
			_, err = out.ReadString('\n')
			require.Error(t, err, "the end of the file: nobody has it any more")
			_ = child.Wait()
		})
	}
}
