package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"
)

// child is a command that runs while a lease lasts. Between it and this process
// stands a guard, a process of this same program, which stops the command by the
// end of the lease also when this process is stopped, hangs, or is gone.
type child struct {
	guard  *exec.Cmd
	orders *os.File      // to the guard; closed = this process is gone
	group  atomic.Int64  // the command's process group, once it is known
	exited chan struct{} // closed when the guard, and so the command, has ended

	code int // of the command; may be read after exited

	// Owned by who started it:
	until reading // the end of the lease that the guard knows
}

// order is one line to a guard. The first one has the terms.
type order struct {
	Until reading `json:"until,omitempty"` // the end of the lease moves there
	Stop  bool    `json:"stop,omitempty"`  // the command is to stop now
	Terms *terms  `json:"terms,omitempty"`
}

// terms are what a guard holds its command to.
type terms struct {
	Signal string        `json:"signal"` // asks the command to stop
	Stop   time.Duration `json:"stop"`   // it is asked so long before the lease ends,
	Grace  time.Duration `json:"grace"`  // killed so long after,
	Margin time.Duration `json:"margin"` // and in any case so long before the lease ends
	Report bool          `json:"report"` // the command's process group is asked for
}

// lease tells how long a leadership lasts if nothing renews it.
type lease interface{ Left() time.Duration }

// endOf is when a lease ends. The clock is read first: a process that is paused
// in between then errs on the safe side.
func endOf(l lease) reading {
	now := clock()
	return now + reading(l.Left())
}

// startChild runs a command under a lease; both may have ended before it returns.
func (a *app) startChild(words, env []string, stdout io.Writer, t terms, until reading) (*child, error) {
	ours, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer ours.Close()
	c := &child{orders: theirs, exited: make(chan struct{}), until: until}
	if c.guard, err = guardCommand(words); err != nil {
		theirs.Close()
		return nil, err
	}
	c.guard.Env, c.guard.Stdin, c.guard.Stdout, c.guard.Stderr = env, ours, stdout, a.err
	report, err := attachReport(c.guard)
	t.Report = true
	if err == nil {
		err = c.guard.Start()
	}
	if err != nil {
		theirs.Close()
		return nil, errors.Join(err, report.Close())
	}
	report.started()
	c.give(order{Until: until, Terms: &t})
	go c.wait(report)
	return c, nil
}

// guardCommand is this program again, whatever has become of its file meanwhile.
func guardCommand(words []string) (*exec.Cmd, error) {
	path, err := selfPath()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, append([]string{"election", guardName, "--"}, words...)...)
	cmd.Args[0] = os.Args[0]
	cmd.WaitDelay = time.Second // for output where it is no file
	apart(cmd)
	return cmd, nil
}

func (c *child) wait(report reportPipe) {
	var told sync.WaitGroup
	told.Go(func() { c.readReport(report) })
	err := c.guard.Wait()
	c.orders.Close()
	told.Wait()
	c.clear()
	c.code = exitCodeOf(c.guard, err)
	close(c.exited)
}

// clear does what a guard that was killed could not: the command itself died with
// it, but others of its process group may live.
func (c *child) clear() {
	id := int(c.group.Load())
	for range clearPatience / time.Millisecond {
		if id == 0 || groupGone(id) {
			return
		}
		killGroup(id)
		time.Sleep(time.Millisecond)
	}
}

// clearPatience bounds the wait for processes that are dead: where nobody buries
// them they stay for ever.
const clearPatience = 50 * time.Millisecond

// readReport takes the guard's only line, the command's process group.
func (c *child) readReport(r reportPipe) {
	defer r.Close()
	line, err := bufio.NewReader(io.LimitReader(r, 64)).ReadBytes('\n')
	var id int64
	if err == nil && json.Unmarshal(line, &id) == nil {
		c.group.Store(id)
	}
}

// give drops an order for which the pipe has no room, as that of a guard that stands
// still: the next one repeats it, or the guard ends by itself. For the first order
// there is room.
func (c *child) give(o order) { writeNow(c.orders, append(marshal(o), '\n')) }

// extend tells the guard of a lease that was renewed.
func (c *child) extend(until reading) {
	if until > c.until {
		c.until = until
		c.give(order{Until: until})
	}
}

// stop asks for the command's end and waits for it. Should the guard not see to
// it by the end of the lease, this process does.
func (c *child) stop(margin time.Duration) {
	c.give(order{Stop: true})
	last := time.NewTimer(time.Duration(c.until-clock()) - margin/2)
	defer last.Stop()
	select {
	case <-c.exited:
	case <-last.C:
		c.killGroup()
		c.guard.Process.Kill()
		<-c.exited
	}
}

// killGroup kills whatever there is of the command. It may be called again.
func (c *child) killGroup() {
	if id := c.group.Load(); id != 0 {
		killGroup(int(id))
	}
}
