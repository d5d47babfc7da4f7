package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/pilotgo/pilotgo/internal/extras"
	"github.com/spf13/cobra"
)

// defaultStore is where a bare serve keeps its log.
func (a *app) defaultStore() string { return filepath.Join(a.dir(), "registry") }

func (a *app) storeCommands() []*cobra.Command {
	return []*cobra.Command{a.registryCheckCommand(), a.registryExportCommand(), a.registryImportCommand()}
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
		return err
	}
	if len(faults) > 0 {
		return &failure{
			code: "damaged", exit: exitInvalid,
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
	s, err := a.extras.OpenStore(ctx, folder, extras.StoreOptions{Logger: a.logger()})
	if err != nil {
		return err
	}
	defer s.Close()
	e, ok := s.(extras.Exporter)
	if !ok {
		return usagef("%s is no folder", folder)
	}
	if err := e.Export(a.out); err != nil {
		return err
	}
	return a.flush()
}

func (a *app) registryImportCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "import FOLDER [FILE]",
		Short: "Make a registry's folder of what export wrote",
		Long: `Make a registry's folder of what export wrote, from a file or from standard input. The
folder must be empty or not there. The log in it has a new epoch, so clients begin it
anew, and a new identity key unless the old folder's is copied into it.`,
		Example: `  zcat log.ndjson.gz | pilotgo registry import /var/lib/pilotgo-registry -`,
		Args:    arguments(1, 2, "pilotgo registry import FOLDER [FILE]"),
		RunE:    func(_ *cobra.Command, args []string) error { return a.importStore(args[0], args[1:]) },
	}
}

func (a *app) importStore(folder string, file []string) error {
	if a.extras.ImportStore == nil {
		return a.hand("registry import")
	}
	from := io.Reader(a.in)
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
		return err
	}
	return a.print(new(object).set("folder", folder), func(w *bufio.Writer) {
		fmt.Fprintf(w, "imported into %s\n", folder)
	})
}

var errNoBackup = errors.New("this store makes no backups of its own: those of the NATS servers are")
