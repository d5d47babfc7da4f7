package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pilotgo/pilotgo/internal/extras"
	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/memlog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// memoryStore is the name of the store that ends with the process.
const memoryStore = "memory"

// storeOptions say where a registry keeps its log.
type storeOptions struct {
	name   string // empty = the default folder
	rotate bool
	keep   registry.Retention // but for the age
	age    lifetime

	cluster extras.StoreOptions
}

func (o *storeOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.name, "store", "", "where the log is kept: a folder (default $PILOT_HOME/.pilot/pilotgo/registry), memory, or nats:// addresses with commas between")
	f.BoolVar(&o.rotate, "rotate-key", false, "begin with a new identity key, which the one before signs, so that clients follow")
	f.IntVar(&o.keep.Messages, "keep-messages", 0, "messages kept of each sender on a topic (default 1000; -1 for no bound)")
	o.age = lifetime(7 * day)
	f.Var(&o.age, "keep-age", "for how long they are kept, as in 12h or 30d; 0 is for ever")
	f.IntVar(&o.keep.Versions, "keep-versions", 0, "versions of a configuration kept of each sender (default 1000; -1 for no bound)")
	f.Int64Var(&o.keep.TopicBytes, "keep-topic-bytes", 0, "bytes of payload kept on one topic (default 64 MiB; -1 for no bound)")
	f.Int64Var(&o.keep.TotalBytes, "keep-bytes", 0, "bytes kept in all, each message counted with its payload and at least 512 more (default 8 GiB; -1 for no bound)")
	f.StringVar(&o.cluster.Stream, "store-stream", "", "name of the log's stream on NATS (default PILOTGO)")
	f.IntVar(&o.cluster.Replicas, "store-replicas", 0, "on how many NATS servers a new log is kept (default 3, where as many are named, else 1)")
	f.StringVar(&o.cluster.Creds, "store-creds", "", "file with the credentials for NATS")
	f.StringVar(&o.cluster.CA, "store-ca", "", "file with the certificates that NATS servers must be signed by")
	f.StringVar(&o.cluster.Cert, "store-cert", "", "file with this registry's certificate for NATS")
	f.StringVar(&o.cluster.Key, "store-key", "", "file with the key of that")
}

// shown is what a store is called in front of people.
func (o *storeOptions) shown(a *app) string { return cmp.Or(o.name, a.defaultStore()) }

// retention is how much the log keeps.
func (o *storeOptions) retention() registry.Retention {
	keep := o.keep
	if keep.Age = time.Duration(o.age); keep.Age == 0 {
		keep.Age = -1 // no bound
	}
	return keep
}

// isCluster reports whether the log is on servers, and not on this machine's disk.
func (o *storeOptions) isCluster() bool { return strings.Contains(o.name, "://") }

// defaultStore is where a bare serve keeps its log.
func (a *app) defaultStore() string { return filepath.Join(a.dir(), "registry") }

// memoryLog is a log in memory with its key, which outlives it.
type memoryLog struct {
	*memlog.Log
	key link.Identity
}

func (l *memoryLog) Key() ed25519.PrivateKey            { return l.key.Key }
func (l *memoryLog) SetKey(ed25519.PrivateKey) error    { return errors.ErrUnsupported }
func (l *memoryLog) Successions() []protocol.Succession { return nil }
func (l *memoryLog) TicketKey() (zero [32]byte)         { return zero }

// memoryKey is the key of the memory registry at this address: one that comes
// back is a new log under the same key.
func (a *app) memoryKey(listen string) string {
	name := strings.NewReplacer(":", "_", "/", "_", "[", "", "]", "", "%", "_").Replace(listen)
	return filepath.Join(a.dir(), "memory", name, "identity.json")
}

// openLog opens the store of a registry that is to listen at an address, with its
// key, made when missing.
func (a *app) openLog(ctx context.Context, o storeOptions, listen string, logger *slog.Logger) (extras.Store, error) {
	if o.name == memoryStore {
		if o.rotate {
			return nil, usagef("--rotate-key needs a store that keeps the signature: a folder")
		}
		key, err := link.LoadOrMakeKeyFile(a.memoryKey(listen))
		return &memoryLog{memlog.New(memlog.Options{Retention: o.retention()}), key}, err
	}
	o.cluster.Logger, o.cluster.Retention = logger, o.retention()
	s, err := a.extras.OpenStore(ctx, o.shown(a), o.cluster)
	if err != nil {
		return nil, storeError(err)
	}
	if s.Key() == nil || o.rotate {
		if err := s.SetKey(link.NewIdentity().Key); err != nil {
			s.Close()
			return nil, err
		}
	}
	return s, nil
}

// storeError keeps what a store says about itself: a word for it, and what to do.
func storeError(err error) error {
	switch protocol.CodeOf(err) {
	case protocol.ErrInternal:
	case protocol.ErrNotConnected, protocol.ErrTimeout:
		f := describe(err)
		if hintOf(err) == "" {
			f.hint = "check the addresses of the NATS servers, and that they run with JetStream"
		}
		return f
	default:
		return err
	}
	f := &failure{code: codeIO, message: err.Error(), hint: hintOf(err), exit: exitError, cause: err}
	var named interface {
		error
		Name() string
	}
	if errors.As(err, &named) {
		f.code = named.Name()
	}
	if f.code == codeDamaged {
		f.exit = exitInvalid
	}
	if f.hint == "" && errors.Is(err, fs.ErrPermission) {
		f.hint = "run this as the user whom the folder belongs to"
	}
	return f
}

// readError is a storeError of a command that makes no log where there is none.
func readError(err error) error {
	err = storeError(err)
	if f, ok := errors.AsType[*failure](err); ok && f.code == codeForeign {
		f.hint = "name the folder of a registry, or a backup of one"
	}
	return err
}

// codeDamaged is what a store is that does not hold what was written to it.
const codeDamaged = "damaged"

// codeForeign is what a folder is that is no log's.
const codeForeign = "foreign_folder"

func (a *app) storeCommands() []*cobra.Command {
	return []*cobra.Command{a.registryCheckCommand(), a.registryExportCommand(), a.registryImportCommand(), a.registryBackupCommand()}
}

// storeFolder is the folder that a command names, or that of a bare serve.
func (a *app) storeFolder(args []string) string {
	if len(args) > 0 {
		return args[0]
	}
	return a.defaultStore()
}

func (a *app) registryCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check [FOLDER]",
		Short: "Read all of a registry's folder and tell what is wrong with it",
		Long: `Read all of a registry's folder, change nothing in it, and tell what it holds and what
is wrong with it. No registry may be using it: stop that first, or check a backup.

It exits 0 when all is well, and 16 when something is not.`,
		Example: `  pilotgo registry check /var/lib/pilotgo-registry`,
		Args:    arguments(0, 1, "pilotgo registry check [FOLDER]"),
		RunE:    func(_ *cobra.Command, args []string) error { return a.checkStore(a.storeFolder(args)) },
	}
}

func (a *app) checkStore(folder string) error {
	if a.extras.CheckStore == nil {
		return a.hand("registry check")
	}
	holds, faults, err := a.extras.CheckStore(folder)
	if err != nil {
		return readError(err)
	}
	if len(faults) > 0 {
		return &failure{
			code: codeDamaged, exit: exitInvalid,
			message: fmt.Sprintf("%s is damaged: %s", folder, strings.Join(faults, "; ")),
			hint:    "restore the newest backup: serve from a copy of it",
		}
	}
	o := new(object).set("folder", folder)
	for _, f := range fieldsOf(marshal(holds)).fields {
		o.setRaw(f.key, f.raw)
	}
	return a.print(o, func(w *bufio.Writer) {
		fmt.Fprintf(w, "%s is well\n", folder)
		for _, f := range o.fields[1:] {
			fmt.Fprintf(w, "  %-10s %s\n", f.key, strings.Trim(string(f.raw), `"`))
		}
	})
}

func (a *app) registryExportCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "export [FOLDER]",
		Short: "Write all that a registry's folder holds as lines of JSON",
		Long: `Write all that a registry's folder holds as lines of JSON, for other tools or for
'pilotgo registry import'. No registry may be using the folder; a backup of one that is
in use can be exported. The identity key is not written.`,
		Example: `  pilotgo registry export /var/lib/pilotgo-registry | gzip >log.ndjson.gz`,
		Args:    arguments(0, 1, "pilotgo registry export [FOLDER]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.exportStore(cmd.Context(), a.storeFolder(args))
		},
	}
}

func (a *app) exportStore(ctx context.Context, folder string) error {
	if a.extras.OpenStore == nil {
		return a.hand("registry export")
	}
	if _, err := os.Stat(folder); err != nil {
		return err // opening would make it
	}
	// What its registry was to keep is not known here, and opening a log applies it.
	all := registry.Retention{Messages: -1, Versions: -1, Age: -1, TopicBytes: -1, TotalBytes: -1}
	s, err := a.extras.OpenStore(ctx, folder, extras.StoreOptions{Retention: all, Logger: a.logger()})
	if err != nil {
		return readError(err)
	}
	defer s.Close()
	e, ok := s.(extras.Exporter)
	if !ok {
		return usagef("%s is no folder", folder)
	}
	err = e.Export(a.out)
	if unread := a.flush(); unread != nil {
		return unread
	}
	return err
}

func (a *app) registryImportCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "import FOLDER FILE",
		Short: "Make a registry's folder of what export wrote",
		Long: `Make a registry's folder of what export wrote, from a file or, with -, from standard
input. The folder must be empty or not there. The log in it has a new epoch, so clients
begin it anew, and a new identity key unless the old folder's is copied into it.`,
		Example: `  zcat log.ndjson.gz | pilotgo registry import /var/lib/pilotgo-registry -`,
		Args:    arguments(1, 2, "pilotgo registry import FOLDER FILE"),
		RunE:    func(_ *cobra.Command, args []string) error { return a.importStore(args[0], args[1:]) },
	}
}

func (a *app) importStore(folder string, file []string) error {
	if a.extras.ImportStore == nil {
		return a.hand("registry import")
	}
	var from io.Reader = a.in
	switch {
	case len(file) == 0:
		return usagef("name a file to import, or - for standard input")
	case file[0] != "-":
		f, err := os.Open(file[0])
		if err != nil {
			return err
		}
		defer f.Close()
		from = f
	}
	if err := a.extras.ImportStore(folder, from); err != nil {
		return storeError(err)
	}
	return a.print(new(object).set("folder", folder), func(w *bufio.Writer) {
		fmt.Fprintf(w, "imported into %s\n", folder)
	})
}

type backupOptions struct {
	http    string
	token   string
	timeout time.Duration
}

func (a *app) registryBackupCommand() *cobra.Command {
	var o backupOptions
	cmd := &cobra.Command{
		Use:   "backup FOLDER",
		Short: "Copy the log of a registry that is running",
		Long: `Ask the registry that serves an operators' address, with a token, for a copy of its
log as of now, while it goes on. The folder is on the registry's machine, must not be
there yet, and holds everything, the identity key too. To restore it, serve from it or a
copy of it: the log then has a new epoch, since what came after the backup is lost.`,
		Example: `  pilotgo registry backup /backups/$(date +%F) --http-token-file /etc/pilotgo/http-token`,
		Args:    arguments(1, 1, "pilotgo registry backup FOLDER"),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.backup(cmd.Context(), o, args[0]) },
	}
	f := cmd.Flags()
	f.StringVar(&o.http, "http", "127.0.0.1:9003", "the registry's operators' address")
	f.StringVar(&o.token, "http-token-file", "", "file with its token")
	durationFlag(f, &o.timeout, "timeout", 10*time.Minute, "how long to wait; 0 is for ever")
	return cmd
}

func (a *app) backup(ctx context.Context, o backupOptions, folder string) error {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	if o.token == "" {
		return usagef("name the file with the token of the operators' address: --http-token-file FILE")
	}
	token, err := os.ReadFile(o.token)
	if err != nil {
		return err
	}
	ctx, cancel := bounded(ctx, o.timeout)
	defer cancel()
	ask, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+o.http+"/backup", bytes.NewReader(marshal(map[string]string{"folder": folder})))
	if err != nil {
		return usagef("--http %s: %v", o.http, err)
	}
	ask.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	answer, err := http.DefaultClient.Do(ask)
	if err != nil {
		f := describe(protocol.Errorf(protocol.ErrNotConnected, "%v", err))
		f.hint = "name the address that the registry was given with its --http: --http ADDR"
		return f
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<16))
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusCreated {
		f := &failure{code: "backup_failed", exit: exitRefused, message: fmt.Sprintf("%s: %s", answer.Status, strings.TrimSpace(string(text)))}
		switch answer.StatusCode {
		case http.StatusInternalServerError:
			f.message = strings.TrimSpace(string(text)) // which says why
		case http.StatusUnauthorized:
			f.code, f.message = protocol.ErrNotAdmitted.Name(), o.http+" has another token than "+o.token
			f.hint = "give the file that the registry was started with: --http-token-file FILE; it reads it when it starts"
		}
		return f
	}
	return a.print(new(object).set("folder", folder), func(w *bufio.Writer) { fmt.Fprintf(w, "copied to %s\n", folder) })
}
