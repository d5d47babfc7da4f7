package cli

import (
	"bufio"
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

func (a *app) initCommand() *cobra.Command {
	var s struct{ registry, beacon, hostname, socket string }
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make this node's identity and its settings",
		Long: `Make this node's identity, unless it has one, and keep the settings given. They go to
pilotgo's own folder below $PILOT_HOME/.pilot; a Pilot installation there is left as
it is.`,
		Example: `  pilotgo init --registry registry.example.com:9002 --hostname agent-7`,
		Args:    arguments(0, 0, "pilotgo init has flags only"),
		RunE: func(*cobra.Command, []string) error {
			given := settings{"registry": s.registry, "beacon": s.beacon, "hostname": s.hostname, "socket": s.socket}
			maps.DeleteFunc(given, func(_, v string) bool { return v == "" })
			return a.initialise(given)
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.registry, "registry", "", "default registry host")
	f.StringVar(&s.hostname, "hostname", "", "name to show to others")
	f.StringVar(&s.beacon, "beacon", "", "kept for pilotctl's sake")
	f.StringVar(&s.socket, "socket", "", "kept for pilotctl's sake")
	return cmd
}

func (a *app) initialise(given settings) error {
	id, err := a.identity()
	if err != nil {
		return err
	}
	for _, key := range []string{"registry", "hosts"} {
		if err := checkSetting(key, given[key]); err != nil {
			return err
		}
	}
	if err := a.set(given); err != nil {
		return err
	}
	now, err := a.settings()
	if err != nil {
		return err
	}
	o := new(object).as("beacon", "config_path", "hostname", "registry", "socket").
		set("config_path", a.configFile()).set("registry", now["registry"]).set("beacon", now["beacon"]).
		set("hostname", now["hostname"]).set("socket", a.socket(now)).
		set("node_id", id.NodeID()).set("address", id.NodeID().Address())
	return a.print(o, func(w *bufio.Writer) {
		fmt.Fprintf(w, "this node is %d, %s; settings are in %s\n", id.NodeID(), id.NodeID().Address(), a.configFile())
	})
}

// socket is where Pilot's daemon would listen. pilotgo needs none.
func (a *app) socket(s settings) string {
	return cmp.Or(os.Getenv("PILOT_SOCKET"), s["socket"], a.pilotSettings()["socket"], "/tmp/pilot.sock")
}

func (a *app) configCommand() *cobra.Command {
	var set string
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show this node's settings, or keep one; share a swarm's configuration",
		Long: `Show this node's settings, or keep one with --set; an empty value removes it. The commands
below are about another thing, the configuration of a swarm. pilotgo reads these keys,
below their environment variables:

  registry       default registry host (PILOTGO_REGISTRY)
  hosts          aliases, name=address,name=address (PILOTGO_HOSTS)
  hostname       name to show to others
  token          join token of the default registry (PILOTGO_TOKEN)
  registry_key   fingerprint of the default registry (PILOTGO_REGISTRY_KEY)

Other keys are kept and not read.`,
		Example: `  pilotgo config --set registry=10.0.0.7:9002
  pilotgo config --set hosts=registry-hostname=10.0.0.7
  pilotgo --json config`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && cmd.HasSubCommands() {
				return unknownCommand(cmd, args[0])
			}
			return arguments(0, 0, "pilotgo config has flags only")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("set") {
				return a.setConfig(set)
			}
			return a.showConfig()
		},
	}
	cmd.Flags().StringVar(&set, "set", "", "keep a setting: key=value")
	if a.wants(cmd.Name()) {
		a.addSwarmCommands(cmd)
	}
	return cmd
}

func (a *app) setConfig(assignment string) error {
	key, value, ok := strings.Cut(assignment, "=")
	if !ok || key == "" {
		e := usagef("--set needs key=value, not %q", assignment)
		return e
	}
	if err := checkSetting(key, value); err != nil {
		return err
	}
	if err := a.set(settings{key: value}); err != nil {
		return err
	}
	return a.print(new(object).set("key", key).set("value", value), func(w *bufio.Writer) {
		fmt.Fprintf(w, "%s = %s\n", key, value)
	})
}

// checkSetting refuses what every later command would stumble over.
func checkSetting(key, value string) error {
	n := names{alias: make(map[string]string)}
	switch key {
	case "hosts":
		return n.addAliases(value)
	case "registry":
		for word := range strings.SplitSeq(value, ",") {
			if _, err := n.resolve(strings.TrimSpace(word)); err != nil && value != "" {
				return err
			}
		}
	}
	return nil
}

// secretSettings are not shown.
var secretSettings = map[string]bool{"token": true, "admin_token": true}

func (a *app) showConfig() error {
	s, err := a.settings()
	if err != nil {
		return err
	}
	shown := a.pilotSettings() // registry there is Pilot's own directory, not a host for topics
	if shown == nil {
		shown = make(settings)
	}
	delete(shown, "registry")
	maps.Copy(shown, s)
	shown["registry"] = cmp.Or(os.Getenv("PILOTGO_REGISTRY"), s["registry"])
	shown["socket"] = a.socket(s)
	shown["config_path"] = a.configFile()
	shown["pid_file"] = filepath.Join(a.pilotDir(), "pilot.pid")
	shown["log_file"] = filepath.Join(a.pilotDir(), "pilot.log")
	o := new(object)
	for _, key := range slices.Sorted(maps.Keys(shown)) {
		if secretSettings[key] && shown[key] != "" {
			shown[key] = "(set)"
		}
		o.set(key, shown[key])
	}
	return a.print(o, func(w *bufio.Writer) {
		for _, key := range slices.Sorted(maps.Keys(shown)) {
			fmt.Fprintf(w, "%s = %s\n", key, shown[key])
		}
	})
}
