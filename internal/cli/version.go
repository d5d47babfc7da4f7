package cli

import (
	"bufio"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/pilotgo/pilotgo/internal/licenses"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/spf13/cobra"
)

// release is set by the linker for a release.
var release = ""

// version is the release, else the module's version as go install knows it.
func version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}

func (a *app) versionCommand() *cobra.Command {
	var texts bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the version",
		Example: `  pilotgo --json version
  pilotgo version --licenses`,
		Args: arguments(0, 0, "pilotgo version has flags only"),
		RunE: func(*cobra.Command, []string) error {
			if texts {
				return a.printLicenses()
			}
			return a.printVersion()
		},
	}
	cmd.Flags().BoolVar(&texts, "licenses", false, "show the licences of all that is in the program")
	return cmd
}

func (a *app) printLicenses() error {
	text, err := licenses.Text()
	if err != nil {
		return err
	}
	return a.print(new(object).set("licenses", text), func(w *bufio.Writer) { fmt.Fprint(w, text) })
}

func (a *app) printVersion() error {
	o := new(object).set("version", version()).set("protocol", protocol.Version).
		set("go", runtime.Version()).set("platform", runtime.GOOS+"/"+runtime.GOARCH)
	return a.print(o, func(w *bufio.Writer) {
		fmt.Fprintf(w, "pilotgo %s, protocol %d, %s %s/%s\n", version(), protocol.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	})
}
