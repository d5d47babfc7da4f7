package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/itchyny/gojq"
)

// jqMain is as much of jq as recipes use: options -r, -e, -c, -n and --arg, a
// program, values on standard input.
func jqMain() int {
	var o jqOptions
	if err := o.parse(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "jq:", err)
		return 2
	}
	in, err := io.ReadAll(os.Stdin)
	if err == nil {
		err = o.run(in, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "jq: error:", err)
		return 5
	}
	if o.exit && !o.truth {
		return 1
	}
	return 0
}

type jqOptions struct {
	raw, exit, compact, null bool
	program                  string
	names                    []string
	values                   []any

	truth bool // the last output was neither null nor false
}

func (o *jqOptions) parse(args []string) error {
	for ; len(args) > 0; args = args[1:] {
		switch arg := args[0]; {
		case arg == "--arg" && len(args) > 2:
			o.names, o.values = append(o.names, "$"+args[1]), append(o.values, args[2])
			args = args[2:]
		case strings.HasPrefix(arg, "-"):
			for _, c := range arg[1:] {
				switch c {
				case 'r':
					o.raw = true
				case 'e':
					o.exit = true
				case 'c':
					o.compact = true
				case 'n':
					o.null = true
				default:
					return fmt.Errorf("unknown option %s", arg)
				}
			}
		case o.program == "":
			o.program = arg
		default:
			return fmt.Errorf("unexpected %s", arg)
		}
	}
	return nil
}

func (o *jqOptions) run(in []byte, out io.Writer) error {
	query, err := gojq.Parse(o.program)
	if err != nil {
		return err
	}
	code, err := gojq.Compile(query, gojq.WithVariables(o.names))
	if err != nil {
		return err
	}
	if o.null {
		return o.print(code.Run(nil, o.values...), out)
	}
	d := json.NewDecoder(bytes.NewReader(in))
	d.UseNumber()
	for {
		var v any
		if err := d.Decode(&v); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := o.print(code.Run(v, o.values...), out); err != nil {
			return err
		}
	}
}

func (o *jqOptions) print(results gojq.Iter, out io.Writer) error {
	for {
		v, ok := results.Next()
		if !ok {
			return nil
		}
		if err, ok := v.(error); ok {
			return err
		}
		o.truth = v != nil && v != false
		if s, ok := v.(string); ok && o.raw {
			fmt.Fprintln(out, s)
			continue
		}
		b, err := gojq.Marshal(v)
		if err != nil {
			return err
		}
		if !o.compact {
			var buf bytes.Buffer
			if json.Indent(&buf, b, "", "  ") == nil {
				b = buf.Bytes()
			}
		}
		fmt.Fprintf(out, "%s\n", b)
	}
}

// jqText is what jq -rc prints, without the last newline.
func jqText(program, in string) (string, error) {
	var out bytes.Buffer
	o := jqOptions{raw: true, compact: true, program: program}
	err := o.run([]byte(in), &out)
	return strings.TrimSuffix(out.String(), "\n"), err
}
