package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/memlog"
	"github.com/spf13/cobra"
)

type serveOptions struct {
	listen    string
	store     string
	admission admissionOptions
	limits    limitOptions
	printAddr bool
}

func (a *app) registryServeCommand() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve a registry until it is stopped",
		Long: `Serve a registry until the command is stopped by SIGINT or SIGTERM, which lets what is
under way end first.

Its log is in memory and ends with the process; its key is kept, by the address it
listens at, so that clients go on trusting it after a restart.

On a loopback address everybody is admitted and may do everything. Elsewhere it takes
one of these: --admit token, and nodes join with what 'pilotgo registry token create'
prints; --allow with the fingerprints of the nodes, as 'pilotgo info' shows them there; or
--admit open with rules in --access FILE.

Operators are this user's own node and those named with --admin: they make tokens,
revoke and label nodes, purge topics. Who else may do what is said by --access FILE,
whose form 'pilotgo registry access check --help' shows; it is read again when it
changes. Without it all who are admitted may publish and subscribe everywhere.`,
		Example: `  pilotgo registry serve
  pilotgo registry serve --listen 127.0.0.1:0 --print-addr
  pilotgo registry serve --listen 0.0.0.0:9002 --admit token --access rules.txt
  pilotgo registry serve --listen 0.0.0.0:9002 --allow sha256:FIRST --allow sha256:SECOND`,
		Args: arguments(0, 0, "pilotgo registry serve has flags only"),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.serve(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", net.JoinHostPort("127.0.0.1", strconv.Itoa(protocol.DefaultPort)), "address to listen at; port 0 is any free one")
	f.StringVar(&o.store, "store", "memory", "where the log is kept: memory")
	o.admission.flags(f)
	o.limits.flags(f)
	f.BoolVar(&o.printAddr, "print-addr", false, "print the address on standard output, and nothing else")
	return cmd
}

func (a *app) serve(ctx context.Context, o serveOptions) error {
	if o.store != "memory" {
		e := usagef("--store is memory, not %q", o.store)
		e.hint = "this build keeps the log in memory only"
		return e
	}
	gate, err := a.gate(o.admission, o.listen)
	if err != nil {
		return err
	}
	key, err := a.registryKey(o.listen)
	if err != nil {
		return err
	}
	log := memlog.New(memlog.Options{})
	defer log.Close()
	r, err := registry.New(registry.Options{
		Log: log, Key: key.Key, Admission: gate.admission, Access: gate.access(), Limits: o.limits.Limits,
		Software: "pilotgo " + version(), Logger: a.logger(),
	})
	if err != nil {
		return err
	}
	defer r.Close()
	addr, err := r.Listen(o.listen)
	if err != nil {
		return listenError(o.listen, err)
	}
	where := whereabouts{
		Address: addr.String(), Fingerprint: link.Fingerprint(key.Public()), Store: o.store, Admit: gate.admission.Mode,
	}
	if err := a.announce(o.printAddr, where); err != nil && !errors.Is(err, errReaderGone) {
		return err
	}
	a.watch(ctx, gate, r)
	<-ctx.Done()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainPatience)
	defer cancel()
	return r.Shutdown(drain)
}

// drainPatience is how long what is under way may take to end.
const drainPatience = 5 * time.Second

// registryKey is the key of the registry at this address, made when missing: a
// memory registry that comes back is a new log under the same key.
func (a *app) registryKey(listen string) (link.Identity, error) {
	name := strings.NewReplacer(":", "_", "/", "_", "[", "", "]", "", "%", "_").Replace(listen)
	return link.LoadOrMakeKeyFile(filepath.Join(a.dir(), "registry", name, "identity.json"))
}

func listenError(listen string, err error) error {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("listen at %s: %w", listen, err)
	}
	return &failure{
		code:    "already_exists",
		message: "something listens at " + listen + " already",
		hint:    "see whether it is a registry: pilotgo registry info " + listen + "; or choose another address with --listen",
		exit:    exitError,
		cause:   err,
	}
}

// whereabouts is what a client has to know of a registry.
type whereabouts struct {
	Address, Fingerprint, Store string
	Admit                       registry.AdmitMode
}

// announce tells where the registry is, once it takes sessions.
func (a *app) announce(addrOnly bool, at whereabouts) error {
	switch {
	case addrOnly:
		fmt.Fprintln(a.out, at.Address)
	case a.json:
		o := new(object).set("address", at.Address).set("fingerprint", at.Fingerprint).set("store", at.Store).set("admit", at.Admit.String())
		o.writeEnvelope(a.out, a.compat)
	default:
		fmt.Fprintf(a.err, "registry at %s, key %s, store %s\n", at.Address, at.Fingerprint, at.Store)
		if at.Admit == registry.AdmitToken {
			fmt.Fprintln(a.err, "nodes join with tokens: pilotgo registry token create")
		}
		if at.Store == "memory" {
			fmt.Fprintln(a.err, "log in memory: a restart begins an empty one")
		}
	}
	return a.flush()
}
