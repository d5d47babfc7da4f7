package cli

import (
	"context"
	"crypto/ed25519"
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
	allow     []string
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

On a loopback address everybody is admitted. Elsewhere only the nodes are whose
fingerprints are listed with --allow; 'pilotgo info' shows a node's.`,
		Example: `  pilotgo registry serve
  pilotgo registry serve --listen 127.0.0.1:0 --print-addr
  pilotgo registry serve --listen 0.0.0.0:9002 --allow sha256:FIRST --allow sha256:SECOND`,
		Args: arguments(0, 0, "pilotgo registry serve has flags only"),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.serve(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", net.JoinHostPort("127.0.0.1", strconv.Itoa(protocol.DefaultPort)), "address to listen at; port 0 is any free one")
	f.StringVar(&o.store, "store", "memory", "where the log is kept: memory")
	f.StringSliceVar(&o.allow, "allow", nil, "fingerprint of a node to admit; may be given many times")
	f.BoolVar(&o.printAddr, "print-addr", false, "print the address on standard output, and nothing else")
	return cmd
}

func (a *app) serve(ctx context.Context, o serveOptions) error {
	if o.store != "memory" {
		e := usagef("--store is memory, not %q", o.store)
		e.hint = "this build keeps the log in memory only"
		return e
	}
	access, err := o.access()
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
		Log: log, Key: key.Key, Access: access, Software: "pilotgo " + version(), Logger: a.logger(),
	})
	if err != nil {
		return err
	}
	defer r.Close()
	addr, err := r.Listen(o.listen)
	if err != nil {
		return listenError(o.listen, err)
	}
	where := whereabouts{Address: addr.String(), Fingerprint: link.Fingerprint(key.Public()), Store: o.store}
	if err := a.announce(o.printAddr, where); err != nil && !errors.Is(err, errReaderGone) {
		return err
	}
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

// access makes the rules of a registry: those listed may do all but an operator's
// work, and without a list everybody may do everything.
func (o *serveOptions) access() (registry.AccessFunc, error) {
	if len(o.allow) == 0 {
		return nil, checkLoopback(o.listen)
	}
	allowed := make(map[string]bool)
	for _, text := range o.allow {
		fingerprint, err := link.ParseFingerprint(text)
		if err != nil {
			return nil, err
		}
		allowed[fingerprint] = true
	}
	return func(_ context.Context, r registry.Request) error { return admit(allowed, r.Key, r.Right) }, nil
}

func admit(allowed map[string]bool, key ed25519.PublicKey, right registry.Right) error {
	switch {
	case right == registry.RightAdmin, right == registry.RightRelay:
		return protocol.ErrDenied
	case right == registry.RightAdmit && !allowed[link.Fingerprint(key)]:
		return protocol.ErrNotAdmitted
	}
	return nil
}

// checkLoopback keeps a registry without rules from strangers.
func checkLoopback(listen string) error {
	at, err := net.ResolveUDPAddr("udp", listen)
	if err != nil {
		return usagef("--listen %s: %v", listen, err)
	}
	if at.IP.IsLoopback() {
		return nil
	}
	e := usagef("%s is open to others, and without --allow nobody would be kept out", listen)
	e.hint = "list the nodes to admit: --allow FINGERPRINT, as 'pilotgo info' shows it there; or listen at 127.0.0.1"
	return e
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
type whereabouts struct{ Address, Fingerprint, Store string }

// announce tells where the registry is, once it takes sessions.
func (a *app) announce(addrOnly bool, at whereabouts) error {
	switch {
	case addrOnly:
		fmt.Fprintln(a.out, at.Address)
	case a.json:
		o := new(object).set("address", at.Address).set("fingerprint", at.Fingerprint).set("store", at.Store)
		o.writeEnvelope(a.out, a.compat)
	default:
		fmt.Fprintf(a.err, "registry at %s, key %s, store %s\n", at.Address, at.Fingerprint, at.Store)
		if at.Store == "memory" {
			fmt.Fprintln(a.err, "log in memory: a restart begins an empty one")
		}
	}
	return a.flush()
}
