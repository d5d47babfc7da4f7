package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/spf13/cobra"
)

func (a *app) registryWaitCommand() *cobra.Command {
	var o connection
	cmd := &cobra.Command{
		Use:   "wait [HOST]",
		Short: "Wait until a registry answers, as one that is just being started",
		Long: `Wait until a registry answers, such as one that a script has just started. At --timeout
the exit code is 11. What waiting does not mend, a key that is not the registry's or a
node that is not let in, ends it at once.`,
		Example: `  pilotgo registry serve & pilotgo registry wait localhost
  pilotgo registry wait registry.example.com --timeout 2m && ./agent`,
		Args: arguments(0, 1, "pilotgo registry wait [HOST]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.waitRegistry(cmd.Context(), o, append(args, "")[0])
		},
	}
	o.flags(cmd.Flags(), 30*time.Second)
	return cmd
}

func (a *app) waitRegistry(ctx context.Context, o connection, word string) error {
	h, err := a.chosen(word)
	if err != nil {
		return err
	}
	ctx, cancel := bounded(ctx, o.timeout)
	defer cancel()
	info, err := a.firstAnswer(ctx, h, o)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		f := describe(err)
		return &failure{
			code: protocol.ErrTimeout.Name(), exit: exitTimeout, hint: f.hint, cause: err,
			message: fmt.Sprintf("no registry at %s within %v: %s", h, o.timeout, f.message),
		}
	}
	if err != nil {
		return err
	}
	return a.print(fieldsOf(marshal(answered(h, info))), func(w *bufio.Writer) { fmt.Fprintf(w, "%s answers\n", h) })
}

// A registry that is not there yet is asked again after so long; one try lasts no
// longer than that.
const (
	askAgainAfter = 50 * time.Millisecond
	oneTry        = 2 * time.Second
)

// firstAnswer asks until there is an answer, or an error that will stay. When ctx
// ends it is the last error.
func (a *app) firstAnswer(ctx context.Context, h host, o connection) (info client.Info, err error) {
	for {
		try, cancel := context.WithTimeout(ctx, oneTry)
		info, err = a.registryInfo(try, h, o)
		cancel()
		if err == nil || !silent(err) && protocol.CodeOf(err) != protocol.ErrDraining || sleep(ctx, askAgainAfter) != nil {
			return info, err
		}
	}
}
