package cli

import (
	"context"
	"errors"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/access"
	"github.com/spf13/pflag"
)

// admissionOptions say who has a session with a registry, and what those may do.
type admissionOptions struct {
	mode   string // empty = by the address and by allow
	allow  []string
	admins []string
	rules  string
}

func (o *admissionOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.mode, "admit", "", "whom to admit besides operators: open (everybody), known (those listed or admitted before), token (those, and who brings a join token)")
	f.StringSliceVar(&o.allow, "allow", nil, "fingerprint of a node to admit; may be given many times")
	f.StringSliceVar(&o.admins, "admin", nil, "fingerprint of a node that is an operator; may be given many times")
	f.StringVar(&o.rules, "access", "", "file of access rules, read again when it changes and on SIGHUP")
}

// gate is what admission options come to.
type gate struct {
	admission registry.Admission
	rules     *access.File // nil = none
}

// gate checks the options. Who serves a registry is an operator of it: whose home
// this is has the registry's key too.
func (a *app) gate(o admissionOptions, listen string) (*gate, error) {
	id, err := a.identity()
	if err != nil {
		return nil, err
	}
	g := &gate{}
	if g.admission.Mode, err = o.admitMode(listen); err != nil {
		return nil, err
	}
	if g.admission.Allow, err = parseKeys(o.allow); err != nil {
		return nil, err
	}
	if g.admission.Operators, err = parseKeys(o.admins); err != nil {
		return nil, err
	}
	g.admission.Operators = append(g.admission.Operators, protocol.KeyHashOf(id.Public()))
	if o.rules != "" {
		if g.rules, err = access.Open(o.rules); err != nil {
			return nil, rulesError(err)
		}
	}
	return g, nil
}

func parseKeys(list []string) (keys []protocol.KeyHash, err error) {
	for _, text := range list {
		key, err := protocol.ParseKeyHash(text)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// admitMode finds the mode, and keeps a registry from letting in strangers that
// nothing holds back.
func (o *admissionOptions) admitMode(listen string) (registry.AdmitMode, error) {
	at, err := net.ResolveUDPAddr("udp", listen)
	if err != nil {
		return 0, usagef("--listen %s: %v", listen, err)
	}
	switch {
	case o.mode == "" && len(o.allow) > 0:
		return registry.AdmitKnown, nil
	case o.mode != "" && o.mode != registry.AdmitOpen.String():
		mode, err := registry.ParseAdmitMode(o.mode)
		if err != nil {
			return 0, usagef("--admit %s: open, known or token", o.mode)
		}
		return mode, nil
	case at.IP.IsLoopback(), o.mode != "" && o.rules != "":
		return registry.AdmitOpen, nil
	}
	e := usagef("%s is open to others, and nobody would be kept out", listen)
	e.hint = "admit by join tokens: --admit token; or list the nodes: --allow FINGERPRINT, as 'pilotgo info' shows it there; or everybody within rules: --admit open --access FILE"
	return 0, e
}

func (g *gate) access() registry.AccessFunc {
	if g.rules == nil {
		return nil
	}
	return g.rules.Allow
}

// rulesPoll is how often a file of rules is looked at.
const rulesPoll = 2 * time.Second

// watch takes over the rules as they change, until ctx ends. Without rules a
// SIGHUP, which supervisors send for that, does nothing.
func (a *app) watch(ctx context.Context, g *gate, r *registry.Registry) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	if g.rules == nil {
		<-ctx.Done()
		return
	}
	told := func(err error) {
		if err == nil {
			r.Recheck()
			a.note("access_reloaded", "access rules read again")
			return
		}
		for _, fault := range access.Faults(err) {
			a.warn("access_unchanged", "access rules stay as they were: "+fault.Error())
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		g.rules.Watch(ctx, rulesPoll, told)
	}()
	for {
		select {
		case <-hangup:
			if changed, err := g.rules.Reload(); changed || err != nil {
				told(err)
			}
		case <-ended:
			return
		}
	}
}

// note tells of something on standard error that is no fault.
func (a *app) note(code, text string) {
	if log := a.logger(); log != nil {
		log.Info(text, "code", code)
	}
}

// rulesError is a file of rules that is not valid.
func rulesError(err error) error {
	var syntax *access.SyntaxError
	if !errors.As(err, &syntax) {
		return err
	}
	return &failure{
		code: protocol.ErrInvalid.Name(), message: err.Error(), exit: exitInvalid, cause: err,
		hint: "a rule is: allow|deny any|label:NAME|FINGERPRINT publish,subscribe,admin,relay|all PATTERN…; try it with 'pilotgo registry access check FILE'",
	}
}
