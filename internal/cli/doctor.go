package cli

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/spf13/cobra"
)

func (a *app) doctorCommand() *cobra.Command {
	var o connection
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check this node and the registries it uses",
		Long: `Check whether this node has an identity, can keep its state, and reaches the registry
hosts it uses, and whether their clocks agree with its own. The exit code is 1 when
something fails.`,
		Example: `  pilotgo doctor
  pilotgo --json doctor | jq '.checks[] | select(.state != "ok")'`,
		Args:        arguments(0, 0, "pilotgo doctor has flags only"),
		Annotations: newKind,
		RunE:        func(cmd *cobra.Command, _ []string) error { return a.doctor(cmd.Context(), o) },
	}
	o.flags(cmd.Flags(), connectPatience)
	return cmd
}

// check is the outcome of one check.
type check struct {
	Name   string `json:"name"`
	State  string `json:"state"` // ok, warning or failed
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
}

func failedCheck(name string, err error) check {
	f := describe(err)
	return check{Name: name, State: "failed", Detail: f.message, Hint: f.hint}
}

func (a *app) doctor(ctx context.Context, o connection) error {
	checks := append([]check{a.checkIdentity(), a.checkState()}, a.checkHosts(ctx, o)...)
	r := new(object).listing("checks").set("checks", checks)
	err := a.print(r, func(w *bufio.Writer) {
		for _, c := range checks {
			fmt.Fprintf(w, "%-8s %s: %s\n", c.State, c.Name, c.Detail)
			if c.Hint != "" {
				fmt.Fprintf(w, "         %s\n", c.Hint)
			}
		}
	})
	if err != nil {
		return err
	}
	return failedOf(checks)
}

// failedOf names the checks that failed; what each said is printed already.
func failedOf(checks []check) error {
	var names []string
	for _, c := range checks {
		if c.State == "failed" {
			names = append(names, c.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return &failure{
		code: "failed", exit: exitError,
		message: fmt.Sprintf("%d of %d checks failed: %s", len(names), len(checks), strings.Join(names, ", ")),
	}
}

func (a *app) checkIdentity() check {
	id, err := a.identity()
	if err != nil {
		return failedCheck("identity", err)
	}
	return check{Name: "identity", State: "ok", Detail: fmt.Sprintf("node %d, %s", id.NodeID(), id.NodeID().Address())}
}

// checkState writes a file of the size of a state file and takes it away again.
func (a *app) checkState() check {
	err := a.locked(func() error {
		f, err := os.CreateTemp(a.dir(), ".doctor.*")
		if err != nil {
			return stateError(err)
		}
		defer os.Remove(f.Name())
		defer f.Close()
		if _, err := f.Write(make([]byte, 64<<10)); err != nil {
			return stateError(err)
		}
		return nil
	})
	if err != nil {
		return failedCheck("state", err)
	}
	return check{Name: "state", State: "ok", Detail: a.dir()}
}

func (a *app) checkHosts(ctx context.Context, o connection) []check {
	hosts, err := a.inboxHosts()
	if err != nil {
		return []check{failedCheck("hosts", err)}
	}
	if len(hosts) == 0 {
		return []check{{
			Name: "hosts", State: "warning", Detail: "no registry host is known",
			Hint: "subscribe to a topic on one, or set PILOTGO_REGISTRY",
		}}
	}
	checks := make([]check, len(hosts))
	var wg sync.WaitGroup
	for i, h := range hosts {
		wg.Go(func() { checks[i] = a.checkHost(ctx, h, o) })
	}
	wg.Wait()
	return checks
}

// maxSkew is how far clocks may differ without anybody noticing.
const maxSkew = 5 * time.Second

func (a *app) checkHost(ctx context.Context, h host, o connection) check {
	ctx, cancel := bounded(ctx, o.timeout)
	defer cancel()
	info, err := a.registryInfo(ctx, h, o)
	if err != nil {
		return failedCheck(h.addr, err)
	}
	return hostCheck(h, info, time.Now())
}

func hostCheck(h host, info client.Info, now time.Time) check {
	c := check{Name: h.addr, State: "ok", Detail: fmt.Sprintf("%s, round trip %s", info.Software, milliseconds(info.RTT))}
	if skew := info.Now.Sub(now).Round(time.Second); skew.Abs() > maxSkew {
		c.State = "warning"
		c.Detail += fmt.Sprintf(", its clock is %v from the one here", skew)
		c.Hint = "versions made by $(date +%s) and times in messages will differ: set the clocks"
	}
	return c
}
