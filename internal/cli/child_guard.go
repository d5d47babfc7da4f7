package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os/exec"
	"runtime"
	"time"

	"github.com/spf13/cobra"
)

const guardName = "guard"

// The exit codes of a command that could not be run, as shells have them.
const (
	exitCannotRun = 126
	exitNotFound  = 127
	exitSignalled = 128 // and the signal's number
)

func (a *app) electionGuardCommand() *cobra.Command {
	return &cobra.Command{
		Use:     guardName + " -- COMMAND [ARG…]",
		Short:   "Keep a command within a lease; 'election run' starts it",
		Example: `  echo '{"until":0,"terms":{"signal":"TERM"}}' | pilotgo election guard -- true`,
		Hidden:  true,
		Args:    arguments(1, -1, "it is started by pilotgo election run"),
		RunE: func(_ *cobra.Command, words []string) error {
			standGuard()
			return exitStatus(guard(a.in, words, a.stdout, a.err))
		},
	}
}

// guard runs a command by the orders it reads, and returns its exit code once
// nothing of the command's process group is left.
func guard(in io.Reader, words []string, stdout, stderr io.Writer) int {
	orders := make(chan order)
	done := make(chan struct{})
	defer close(done)
	go readOrders(in, orders, done)
	first, ok := <-orders
	if !ok || first.Terms == nil {
		return exitCannotRun
	}
	k := keeper{terms: *first.Terms, until: first.Until}
	if !k.begins(orders) {
		return exitOK // nothing of it ran
	}
	report := openReport(k.Report)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	tied(cmd)
	exited, err := startTied(cmd)
	if err != nil {
		return startFailure(err)
	}
	report(cmd.Process.Pid)
	return k.watch(cmd.Process.Pid, orders, exited)
}

// begins waits until the lease has room for the command: on a busy machine the
// one that came with the first order may be over by now, and renewed since. It
// reports false when there will be none.
func (k *keeper) begins(orders <-chan order) bool {
	for k.due(clock()) != keep {
		o, ok := <-orders
		if !ok || o.Stop {
			return false
		}
		k.obey(o, clock())
	}
	return true
}

func readOrders(in io.Reader, to chan<- order, done <-chan struct{}) {
	defer close(to)
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var o order
		if json.Unmarshal(lines.Bytes(), &o) != nil {
			continue
		}
		select {
		case to <- o:
		case <-done:
			return
		}
	}
}

// startTied starts a command that dies with this process, and tells its exit code
// once nothing of its process group is left. The kernel ties it to the thread that
// started it, so that thread is kept until then.
func startTied(cmd *exec.Cmd) (exited <-chan int, err error) {
	started, code := make(chan error), make(chan int, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			code <- awaitGroup(cmd)
		}
	}()
	return code, <-started
}

func startFailure(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return exitNotFound
	}
	return exitCannotRun
}

// keeper decides when a command must go.
type keeper struct {
	terms
	until  reading // the end of the lease
	asked  reading // when somebody asked for the end; 0: nobody did
	warned bool    // the command has had its signal
}

// duty is what a keeper has to do about its command.
type duty int

const (
	keep duty = iota
	warn
	kill
)

func (k *keeper) warnAt() reading {
	at := k.until - reading(k.Stop)
	if k.asked != 0 {
		at = min(at, k.asked)
	}
	return at
}

func (k *keeper) killAt() reading {
	return min(k.warnAt()+reading(k.Grace), k.until-reading(k.Margin))
}

// due is what to do now, with what was done already in mind.
func (k *keeper) due(now reading) duty {
	switch {
	case now >= k.killAt():
		return kill
	case now >= k.warnAt() && !k.warned:
		return warn
	}
	return keep
}

// next is how long there is nothing to do.
func (k *keeper) next(now reading) time.Duration {
	at := k.warnAt()
	if k.warned {
		at = k.killAt()
	}
	return time.Duration(at - now)
}

// obey takes an order. A lease is not renewed any more for a command that was
// told to go.
func (k *keeper) obey(o order, now reading) {
	if o.Stop && k.asked == 0 {
		k.asked = now
	}
	if !k.warned && k.asked == 0 {
		k.until = max(k.until, o.Until)
	}
}

// longestNap bounds how late a keeper is after the machine was suspended: timers
// stand still meanwhile, the lease does not.
const longestNap = 20 * time.Millisecond

func (k *keeper) watch(pid int, orders <-chan order, exited <-chan int) int {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case code := <-exited:
			return code
		case o, ok := <-orders:
			if !ok { // who leads is gone: nothing will renew the lease
				orders, o.Stop = nil, true
			}
			k.obey(o, clock())
		case <-timer.C:
		}
		switch k.due(clock()) {
		case kill:
			killGroup(pid)
		case warn:
			k.warned = true
			signalGroup(pid, k.Signal)
		case keep:
		}
		timer.Reset(min(max(k.next(clock()), time.Millisecond), longestNap))
	}
}
