package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/spf13/pflag"
)

// duration is a flag in Go's syntax or as a number of seconds.
type duration time.Duration

func (d *duration) String() string { return time.Duration(*d).String() }
func (d *duration) Type() string   { return "duration" }

func (d *duration) Set(s string) error {
	v, err := parseDuration(s)
	*d = duration(v)
	return err
}

func durationFlag(f *pflag.FlagSet, to *time.Duration, name string, value time.Duration, usage string) {
	*to = value
	f.Var((*duration)(to), name, usage)
}

// parseDuration reads 500ms, 1h30m, or seconds as in 30 and 0.5.
func parseDuration(s string) (time.Duration, error) {
	if d, err := time.ParseDuration(s); err == nil {
		if d < 0 {
			return 0, usagef("invalid duration: %q is negative", s)
		}
		return d, nil
	}
	seconds, err := strconv.ParseFloat(s, 64)
	if err != nil || !(seconds >= 0 && seconds <= math.MaxInt64/1e9) {
		return 0, usagef("invalid duration: %q", s)
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

const day = 24 * time.Hour

// lifetime is a duration that may be given in days.
type lifetime time.Duration

func (l *lifetime) String() string {
	if d := time.Duration(*l); d > 0 && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return time.Duration(*l).String()
}

func (l *lifetime) Type() string { return "duration" }

func (l *lifetime) Set(s string) error {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			*l = lifetime(time.Duration(n) * day)
			return nil
		}
	}
	d, err := parseDuration(s)
	*l = lifetime(d)
	return err
}

// parseTime reads RFC 3339, unix seconds, or how long before now as a duration.
func parseTime(s string, now time.Time) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t, nil
	}
	if n, err := strconv.ParseUint(s, 10, 33); err == nil {
		return time.Unix(int64(n), 0), nil
	}
	if d, err := parseDuration(s); err == nil {
		return now.Add(-d), nil
	}
	return time.Time{}, usagef("invalid time: %q is neither RFC 3339, unix seconds nor an age such as 10m", s)
}

// moment is a flag that takes what parseTime reads.
type moment struct{ time.Time }

func (m *moment) Type() string { return "time" }

func (m *moment) String() string {
	if m.IsZero() {
		return ""
	}
	return m.Format(time.RFC3339Nano)
}

func (m *moment) Set(s string) (err error) {
	m.Time, err = parseTime(s, time.Now())
	return err
}

// start is where a subscription begins.
type start struct {
	kind  protocol.StartKind
	after protocol.Seq
	since time.Time
	text  string
}

func (s *start) Type() string   { return "start" }
func (s *start) String() string { return s.text }

func (s *start) Set(text string) error {
	*s = start{text: text}
	switch kind, arg, _ := strings.Cut(text, ":"); kind {
	case "new":
		s.kind = protocol.StartNew
	case "last":
		s.kind = protocol.StartLast
	case "all":
		s.kind = protocol.StartAll
	case "seq":
		n, err := strconv.ParseUint(arg, 10, 64)
		s.kind, s.after = protocol.StartAfter, protocol.Seq(n)
		return err
	case "since":
		t, err := parseTime(arg, time.Now())
		s.kind, s.since = protocol.StartSince, t
		return err
	default:
		return usagef("invalid start: %q", text)
	}
	return nil
}
