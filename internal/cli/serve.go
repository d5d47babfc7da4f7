package cli

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"syscall"
	"time"

	"github.com/pilotgo/pilotgo/internal/extras"
	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/spf13/cobra"
)

type serveOptions struct {
	listen    string
	store     storeOptions
	admission admissionOptions
	limits    limitOptions
	http      httpOptions
	printAddr bool
	log       string
}

func (a *app) registryServeCommand() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve a registry until it is stopped",
		Long: `Serve a registry until the command is stopped by SIGINT or SIGTERM, which lets what is
under way end first.

Its log is in a folder, --store, and what was acknowledged is on disk. A log in memory,
--store memory, ends with the process; its key is kept, by the address it listens at, so
that clients go on trusting it after a restart.

On a loopback address everybody is admitted and may do everything. Elsewhere it takes
one of these: --admit token, and nodes join with what 'pilotgo registry token create'
prints; --allow with the fingerprints of the nodes, as 'pilotgo info' shows them there; or
--admit open with rules in --access FILE.

Operators are this user's own node and those named with --admin: they make tokens,
revoke and label nodes, purge topics. Who else may do what is said by --access FILE,
whose form 'pilotgo registry access check --help' shows; it is read again when it
changes. Without it all who are admitted may publish and subscribe everywhere.`,
		Example: `  pilotgo registry serve
  pilotgo registry serve --store memory --listen 127.0.0.1:0 --print-addr
  pilotgo registry serve --store /var/lib/pilotgo-registry --http 127.0.0.1:9003
  pilotgo registry serve --listen 0.0.0.0:9002 --admit token --access rules.txt
  pilotgo registry serve --listen 0.0.0.0:9002 --allow sha256:FIRST --allow sha256:SECOND`,
		Args: arguments(0, 0, "pilotgo registry serve has flags only"),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.serve(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", net.JoinHostPort("127.0.0.1", strconv.Itoa(protocol.DefaultPort)), "address to listen at; port 0 is any free one")
	o.store.flags(f)
	o.admission.flags(f)
	o.limits.flags(f)
	o.http.flags(f)
	f.StringVar(&o.log, "log", "warn", "what to log on standard error: off, error, warn, info or debug; as JSON with --json")
	f.BoolVar(&o.printAddr, "print-addr", false, "print the address on standard output, and nothing else")
	return cmd
}

// serve serves until ctx ends, and does not wait long then for a log that does not
// answer.
func (a *app) serve(ctx context.Context, o serveOptions) error {
	ended := make(chan error, 1)
	go func() { ended <- a.serveLog(ctx, o) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	late := time.NewTimer(2 * drainPatience)
	defer late.Stop()
	select {
	case err := <-ended:
		return err
	case <-late.C:
		return &failure{
			code: codeIO, message: "the log " + o.store.shown(a) + " does not answer; left without it", exit: exitError,
			hint: "look at the disk, or at the cluster; what was acknowledged is in the log",
		}
	}
}

func (a *app) serveLog(ctx context.Context, o serveOptions) error {
	if (o.store.name != memoryStore || o.http.addr != "") && a.extras.OpenStore == nil {
		return a.hand("a log on disk, or an operators' page,")
	}
	if err := o.http.check(); err != nil {
		return err
	}
	logger, err := a.serveLogger(o.log)
	if err != nil {
		return err
	}
	gate, err := a.gate(o.admission, o.listen)
	if err != nil {
		return err
	}
	log, err := a.openLog(ctx, o.store, o.listen, logger)
	if err != nil {
		return err
	}
	defer log.Close()
	options := registry.Options{
		Log: log, Key: log.Key(), Successions: log.Successions(), TicketKey: log.TicketKey(), Admission: gate.admission, Access: gate.access(), Limits: o.limits.Limits,
		Software: "pilotgo " + version(), Logger: logger,
	}
	var operator extras.Operator
	if o.http.addr != "" {
		operator = a.extras.NewOperator()
		defer operator.Close()
		options.Observer = operator.Observer()
		options.Admission.Operators = append(options.Admission.Operators, operatorHash(log.Key()))
	}
	r, err := registry.New(options)
	if err != nil {
		return err
	}
	defer r.Close()
	addr, err := r.Listen(o.listen)
	if err != nil {
		return listenError("--listen", o.listen, err)
	}
	where := whereabouts{
		Address: addr.String(), Fingerprint: link.Fingerprint(options.Key.Public().(ed25519.PublicKey)),
		Store: o.store.shown(a), Admit: gate.admission.Mode,
	}
	if operator != nil {
		about := extras.OperatorOptions{Registry: r, Log: log, Store: where.Store, Logger: logger}
		at, stop, err := a.serveHTTP(ctx, o.http, operator, about, where.Address, options.Key)
		if err != nil {
			return err
		}
		defer stop()
		where.HTTP = at
	}
	if err := a.announce(o.printAddr, where); err != nil && !errors.Is(err, errReaderGone) {
		return err
	}
	tellManager(managerReady, logger)
	return a.serveOn(ctx, gate, r, log, o.store)
}

// serveOn keeps the rules up to date until ctx ends or the log has failed, and
// sends the clients away then.
func (a *app) serveOn(ctx context.Context, g *gate, r *registry.Registry, log extras.Store, o storeOptions) error {
	serving, stop := whileItLives(ctx, log)
	defer stop()
	a.watch(serving, g, r)
	<-serving.Done()
	tellManager(managerStopping, nil)
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainPatience)
	defer cancel()
	err := r.Shutdown(drain)
	if ctx.Err() == nil {
		return logFailed(context.Cause(serving), o)
	}
	return err
}

// whileItLives is a context that also ends when the store has failed, with what
// it says about that.
func whileItLives(ctx context.Context, store extras.Store) (context.Context, context.CancelFunc) {
	m, ok := store.(extras.Mortal)
	if !ok {
		return context.WithCancel(ctx)
	}
	ctx, end := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-m.Failed():
			end(m.Ready())
		case <-ctx.Done():
		}
	}()
	return ctx, func() { end(nil) }
}

// logFailed is why a registry ends by itself: only a process that begins anew
// can tell what its log holds.
func logFailed(err error, o storeOptions) error {
	look := "look at the disk, its mount and its space"
	if o.isCluster() {
		look = "look at the streams of the log on the NATS servers"
	}
	return &failure{
		code: codeIO, message: err.Error(), exit: exitError, cause: err,
		hint: cmp.Or(hintOf(err), look) + "; a supervisor restarts it by itself",
	}
}

// serveLogger logs what is worth an operator's while, never a payload.
func (a *app) serveLogger(level string) (*slog.Logger, error) {
	if a.verbose {
		level = "debug"
	}
	if level == "off" {
		return nil, nil
	}
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return nil, usagef("--log %s: off, error, warn, info or debug", level)
	}
	o := &slog.HandlerOptions{Level: least}
	if a.json {
		return slog.New(slog.NewJSONHandler(a.err, o)), nil
	}
	o.ReplaceAttr = plainError
	return slog.New(slog.NewTextHandler(a.err, o)), nil
}

// plainError is what an error says. A text handler would print it with %+v, at
// which those of Pebble show a page of stack traces.
func plainError(_ []string, at slog.Attr) slog.Attr {
	if err, ok := at.Value.Any().(error); ok {
		at.Value = slog.StringValue(fmt.Sprint(err))
	}
	return at
}

// drainPatience is how long what is under way may take to end.
const drainPatience = 5 * time.Second

// listenError says which flag has an address that cannot be had.
func listenError(flag, at string, err error) error {
	f := &failure{code: codeIO, message: fmt.Sprintf("listen at %s: %v", at, err), exit: exitError, cause: err}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		f.code, f.message = "already_exists", "something listens at "+at+" already"
		f.hint = "see what it is, or choose another address with " + flag
		if flag == "--listen" {
			f.hint = "see what it is, a registry perhaps: pilotgo registry info " + at + "; or choose another address with " + flag
		}
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		f.hint = "choose an address that this machine has with " + flag + ", or 0.0.0.0 for all of them"
	default:
		f.hint = "choose another address with " + flag
	}
	return f
}

// whereabouts is what a client has to know of a registry.
type whereabouts struct {
	Address, Fingerprint, Store, HTTP string

	Admit registry.AdmitMode
}

// announce tells where the registry is, once it takes sessions.
func (a *app) announce(addrOnly bool, at whereabouts) error {
	switch {
	case addrOnly:
		fmt.Fprintln(a.out, at.Address)
	case a.json:
		o := new(object).set("address", at.Address).set("fingerprint", at.Fingerprint).set("store", at.Store).set("admit", at.Admit.String())
		if at.HTTP != "" {
			o.set("http", "http://"+at.HTTP+"/")
		}
		o.writeEnvelope(a.out, a.compat)
	default:
		fmt.Fprintf(a.err, "registry at %s, key %s, store %s\n", at.Address, at.Fingerprint, at.Store)
		if at.Admit == registry.AdmitToken {
			fmt.Fprintln(a.err, "nodes join with tokens: pilotgo registry token create --host "+ownAddress(at.Address))
		}
		if at.HTTP != "" {
			fmt.Fprintf(a.err, "operators' page at http://%s/\n", at.HTTP)
		}
		if at.Store == memoryStore {
			fmt.Fprintln(a.err, "log in memory: a restart begins an empty one")
		}
	}
	return a.flush()
}
