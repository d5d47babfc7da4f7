package cli

import (
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (a *app) contextCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "context",
		Short: "Describe all commands for programs",
		Long: `Print one description of all commands, their flags, the error codes and the exit
codes, for programs and language models that call pilotgo.`,
		Example: `  pilotgo --json context | jq '.commands | keys'`,
		Args:    arguments(0, 0, "pilotgo context has flags only"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.print(a.manifest(cmd.Root()), nil)
		},
	}
}

type manifestCommand struct {
	Usage       string         `json:"usage"`
	Description string         `json:"description"`
	Flags       []manifestFlag `json:"flags"`
	Example     string         `json:"example,omitempty"`
	ExitCodes   string         `json:"exit_codes"`
}

type manifestFlag struct {
	Name    string `json:"name"`
	Type    string `json:"type"`
	Default string `json:"default,omitempty"`
	Usage   string `json:"usage"`
}

func (a *app) manifest(root *cobra.Command) *object {
	commands := make(map[string]manifestCommand)
	collectCommands(root, commands)
	codes := make(map[string]string)
	for _, c := range protocol.Codes() {
		codes[c.Name()] = c.Error()
	}
	codes[codeUsage] = "the command line makes no sense"
	codes[codeIO], codes[codeInterrupted] = "a file could not be read or written", "stopped by a signal"
	exits := make(map[int]string)
	for _, e := range exitCodes {
		exits[e.code] = e.meaning
	}
	return new(object).as("version", "environment", "config_file").
		set("version", version()).
		set("config_file", a.configFile()).
		set("environment", environment).
		set("commands", commands).
		set("error_codes", codes).
		set("exit_codes", exits).
		set("output", `with --json: {"status":"ok","data":{…}} with every key of data again at top level, on standard output; `+
			`errors as {"status":"error","code","message","error","hint"} on standard error; streams print one object a line`)
}

func collectCommands(cmd *cobra.Command, into map[string]manifestCommand) {
	for _, c := range cmd.Commands() {
		if !c.IsAvailableCommand() || c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		if c.Runnable() && c.Annotations["group"] == "" {
			into[c.CommandPath()[len(c.Root().Name())+1:]] = describeCommand(c)
		}
		collectCommands(c, into)
	}
}

func describeCommand(c *cobra.Command) manifestCommand {
	m := manifestCommand{Usage: c.UseLine(), Description: c.Short, Flags: []manifestFlag{}, Example: c.Example, ExitCodes: "0, 1, 2"}
	if c.Annotations["exit"] == newKind["exit"] {
		m.ExitCodes = "as in exit_codes"
	}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" {
			m.Flags = append(m.Flags, manifestFlag{"--" + f.Name, f.Value.Type(), f.DefValue, f.Usage})
		}
	})
	return m
}

// environment are the variables that pilotgo reads.
var environment = map[string]string{
	"PILOT_HOME":           "folder that has .pilot in it; the home folder by default",
	"PILOTGO_REGISTRY":     "default registry host; several addresses of one log with commas between",
	"PILOTGO_HOSTS":        "aliases of registry hosts: name=address,name=address",
	"PILOTGO_TOKEN":        "join token of the default registry",
	"PILOTGO_REGISTRY_KEY": "fingerprint the default registry must have",
	"PILOTGO_COMPAT":       "pilotctl: exactly its output shapes; arrays: bare lists; or both with a comma",
}
