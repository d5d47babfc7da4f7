package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// child is a process of this program that printed "READY addr": a server, or a
// member of a group with its node's id.
type child struct {
	cmd  *exec.Cmd
	addr string
}

func spawn(kind string, args ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, append([]string{kind}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), "READY ")
	if err == nil && !ok {
		err = fmt.Errorf("said %q", line)
	}
	if err != nil {
		cmd.Process.Kill()
		cmd.Wait()
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	return &child{cmd: cmd, addr: addr}, nil
}

// rest has a child collect its garbage and give back what it does not use, which
// shows in resident soon.
func (c *child) rest() error {
	if err := c.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		return err
	}
	time.Sleep(2 * time.Second)
	return nil
}

// restOnSignal makes a child do what rest asks for.
func restOnSignal() {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	go func() {
		for range asked {
			debug.FreeOSMemory()
		}
	}()
}

func (c *child) kill() {
	c.cmd.Process.Kill()
	c.cmd.Wait()
}

// cpu is the processor time that a process has used so far, by Linux's count of
// clock ticks (100 a second).
func cpu(pid int) time.Duration {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

func ownCPU() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// resident is a process's resident memory in bytes.
func resident(pid int) int {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	pages, _ := strconv.Atoi(strings.Fields(string(b))[1])
	return pages * os.Getpagesize()
}
