package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"syscall"
)

// compat are the ways of output that PILOTGO_COMPAT asks for.
type compat struct {
	pilotctl bool // the real shapes, and streams where the real one streams
	arrays   bool // bare lists from commands that list
}

func parseCompat(text string) (c compat, err error) {
	for word := range strings.SplitSeq(text, ",") {
		switch strings.TrimSpace(word) {
		case "":
		case "pilotctl":
			c.pilotctl = true
		case "arrays":
			c.arrays = true
		default:
			return c, usagef("PILOTGO_COMPAT knows pilotctl and arrays, not %q", word)
		}
	}
	return c, nil
}

// object is a JSON object under construction, with its keys in order.
type object struct {
	fields []field
	real   []string // the keys that pilotctl prints; nil = all
	list   string   // the key that is the list of a listing command
}

type field struct {
	key   string
	raw   []byte
	write func(*bufio.Writer) // instead of raw, for what is too large to be held
	flat  bool                // stands beside data only
}

// set adds a value; a nil slice is an empty list.
func (o *object) set(key string, v any) *object {
	if r := reflect.ValueOf(v); r.Kind() == reflect.Slice && r.IsNil() {
		return o.setRaw(key, []byte("[]"))
	}
	return o.setRaw(key, marshal(v))
}

func (o *object) setRaw(key string, raw []byte) *object {
	o.fields = append(o.fields, field{key: key, raw: raw})
	return o
}

// setMessages adds a list of messages, which are rendered one by one as they are
// written: a list stands in the envelope three times, each message in several forms.
func (o *object) setMessages(key string, list []*message, render func(*message, []byte) []byte) *object {
	o.fields = append(o.fields, field{key: key, write: func(w *bufio.Writer) { writeList(w, list, render) }})
	return o
}

func writeList(w *bufio.Writer, list []*message, render func(*message, []byte) []byte) {
	var b []byte
	w.WriteByte('[')
	for i, m := range list {
		if i > 0 {
			w.WriteByte(',')
		}
		b = render(m, b[:0])
		w.Write(b)
	}
	w.WriteByte(']')
}

// alias adds a second name for a key, beside data only.
func (o *object) alias(key, of string) *object {
	f := o.fields[o.index(of)]
	f.key, f.flat = key, true
	o.fields = append(o.fields, f)
	return o
}

// flat adds a key beside data only.
func (o *object) flat(key string, raw []byte) {
	o.fields = append(o.fields, field{key: key, raw: raw, flat: true})
}

func (o *object) has(key string) bool {
	return o.index(key) >= 0
}

// as names the keys that the real pilotctl prints.
func (o *object) as(real ...string) *object {
	o.real = real
	return o
}

// listing names the key that is the list of a listing command.
func (o *object) listing(key string) *object {
	o.list = key
	return o
}

// marshal is v as JSON, with <, > and & as they are. All values here marshal.
func marshal(v any) []byte {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}

// reserved are the keys of the envelope itself, which data never overwrites.
var reserved = map[string]bool{
	"status": true, "data": true, "code": true, "message": true, "error": true, "hint": true,
}

// writeEnvelope writes the one line of a command that went well: data, and every
// key of data again beside it, for scripts that know only one of the two shapes.
func (o *object) writeEnvelope(w *bufio.Writer, c compat) {
	switch {
	case c.arrays && o.list != "":
		o.writeBare(w, o.list)
	case c.pilotctl:
		w.WriteString(`{"data":`)
		writeFields(w, o.plain())
		w.WriteString(`,"status":"ok"}`)
	default:
		w.WriteString(`{"status":"ok","data":`)
		writeFields(w, slices.DeleteFunc(slices.Clone(o.fields), func(f field) bool { return f.flat }))
		for _, f := range o.fields {
			if !reserved[f.key] {
				w.WriteByte(',')
				writeField(w, f)
			}
		}
		w.WriteByte('}')
	}
	w.WriteByte('\n')
}

func (o *object) index(key string) int {
	return slices.IndexFunc(o.fields, func(f field) bool { return f.key == key })
}

// writeBare writes the value of a key alone.
func (o *object) writeBare(w *bufio.Writer, key string) {
	i := o.index(key)
	if i < 0 {
		w.WriteString("null")
		return
	}
	o.fields[i].writeValue(w)
}

// plain is what pilotctl prints of the object, sorted as it sorts.
func (o *object) plain() []field {
	kept := slices.DeleteFunc(slices.Clone(o.fields), func(f field) bool {
		return f.flat || o.real != nil && !slices.Contains(o.real, f.key)
	})
	slices.SortFunc(kept, func(a, b field) int { return cmp.Compare(a.key, b.key) })
	return kept
}

func writeFields(w *bufio.Writer, fields []field) {
	w.WriteByte('{')
	for i, f := range fields {
		if i > 0 {
			w.WriteByte(',')
		}
		writeField(w, f)
	}
	w.WriteByte('}')
}

func writeField(w *bufio.Writer, f field) {
	w.Write(appendQuotedString(nil, f.key))
	w.WriteByte(':')
	f.writeValue(w)
}

func (f field) writeValue(w *bufio.Writer) {
	if f.write != nil {
		f.write(w)
		return
	}
	w.Write(f.raw)
}

// writeIndented writes data for people, where a command has no text of its own.
func (o *object) writeIndented(w *bufio.Writer) {
	var line, indented bytes.Buffer
	b := bufio.NewWriter(&line)
	writeFields(b, slices.DeleteFunc(slices.Clone(o.fields), func(f field) bool { return f.flat }))
	b.Flush()
	if json.Indent(&indented, line.Bytes(), "", "  ") != nil {
		indented = line
	}
	w.Write(indented.Bytes())
	w.WriteByte('\n')
}

// print writes the result of a command: the envelope, or text for people.
func (a *app) print(o *object, text func(w *bufio.Writer)) error {
	switch {
	case a.json:
		o.writeEnvelope(a.out, a.compat)
	case text != nil:
		text(a.out)
	default:
		o.writeIndented(a.out)
	}
	return a.flush()
}

// flush hands what was printed to the reader. When that one has gone away, the
// error is errReaderGone, and there is nothing left to do.
func (a *app) flush() error {
	err := a.out.Flush()
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) {
		return errReaderGone
	}
	if err != nil {
		return &failure{code: codeIO, message: "standard output: " + err.Error(), exit: exitError, cause: err}
	}
	return nil
}

var errReaderGone = errors.New("nobody reads standard output any more")

// warn tells of a loss that is no error of the command.
func (a *app) warn(code, text string) {
	if a.json {
		w := bufio.NewWriter(a.err)
		defer w.Flush()
		writeFields(w, new(object).set("code", code).set("message", text).set("status", "warning").fields)
		w.WriteByte('\n')
		return
	}
	fmt.Fprintf(a.err, "warning: %s\n", text)
}

// printError writes an error to standard error, as JSON or for people.
func (a *app) printError(f *failure) {
	w := bufio.NewWriter(a.err)
	defer w.Flush()
	if !a.json {
		w.WriteString("error: " + shown(f.message, true) + "\n")
		if f.hint != "" {
			w.WriteString("hint:  " + f.hint + "\n")
		}
		return
	}
	o := new(object).set("code", f.code)
	if !a.compat.pilotctl {
		o.set("error", f.message)
	}
	if f.hint != "" || !a.compat.pilotctl {
		o.set("hint", f.hint)
	}
	o.set("message", f.message)
	if f.retry > 0 && !a.compat.pilotctl {
		o.set("retry_after_ms", f.retry.Milliseconds())
	}
	writeFields(w, o.set("status", "error").fields)
	w.WriteByte('\n')
}
