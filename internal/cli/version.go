package cli

import (
	"bufio"
	"fmt"
	"runtime"
	"runtime/debug"

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
	return &cobra.Command{
		Use:     "version",
		Short:   "Show the version",
		Example: `  pilotgo --json version`,
		Args:    arguments(0, 0, "pilotgo version has flags only"),
		RunE:    func(*cobra.Command, []string) error { return a.printVersion() },
	}
}

func (a *app) printVersion() error {
	o := new(object).set("version", version()).set("protocol", protocol.Version).
		set("go", runtime.Version()).set("platform", runtime.GOOS+"/"+runtime.GOARCH)
	return a.print(o, func(w *bufio.Writer) {
		fmt.Fprintf(w, "pilotgo %s, protocol %d, %s %s/%s\n", version(), protocol.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	})
}
