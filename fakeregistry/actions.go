package fakeregistry

import (
	"context"
	"strings"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// actions read the fields of each fault that a script can name. The table in
// doc.go describes them.
var actions = map[string]func(*fields) func(*Registry) error{
	"partition":     parsePartition,
	"heal":          parseHeal,
	"link":          parseLink,
	"refuse":        parseRefuse,
	"mute":          named((*Registry).Mute),
	"unmute":        named((*Registry).Unmute),
	"stall":         named((*Registry).Stall),
	"unstall":       named((*Registry).Unstall),
	"disconnect":    named((*Registry).Disconnect),
	"delay_acks":    parseDelayAcks,
	"drop_acks":     parseDropAcks,
	"fail":          parseFail,
	"crash_at":      parseCrashAt,
	"stop":          simple((*Registry).Stop),
	"start":         func(*fields) func(*Registry) error { return (*Registry).Start },
	"start_empty":   func(*fields) func(*Registry) error { return (*Registry).StartEmpty },
	"restart":       func(*fields) func(*Registry) error { return (*Registry).Restart },
	"restart_empty": func(*fields) func(*Registry) error { return (*Registry).RestartEmpty },
	"shutdown":      parseShutdown,
	"storage_full":  parseStorageFull,
	"retention":     parseRetention,
	"purge":         parsePurge,
	"clock":         parseClock,
	"new_key":       parseNewKey,
	"inject":        parseInject,
	"clear":         simple((*Registry).ClearFaults),
}

func simple(do func(*Registry)) func(*fields) func(*Registry) error {
	return func(*fields) func(*Registry) error {
		return func(r *Registry) error { do(r); return nil }
	}
}

// named is for faults of one node, or of all where there is none.
func named(do func(*Registry, string)) func(*fields) func(*Registry) error {
	return func(f *fields) func(*Registry) error {
		node := f.textOr("node", "")
		return func(r *Registry) error { do(r, node); return nil }
	}
}

func parsePartition(f *fields) func(*Registry) error {
	node, other := f.text("node"), f.textOr("other", Host)
	direction := f.textOr("direction", "both")
	cut := map[string]func(*Registry){
		"both": func(r *Registry) { r.Partition(node, other) },
		"to":   func(r *Registry) { r.PartitionOneWay(node, other) },
		"from": func(r *Registry) { r.PartitionOneWay(other, node) },
	}[direction]
	if cut == nil {
		f.fail("direction", "%q is not both, to or from", direction)
	}
	return func(r *Registry) error { cut(r); return nil }
}

func parseHeal(f *fields) func(*Registry) error {
	node, other := f.textOr("node", ""), f.textOr("other", Host)
	return func(r *Registry) error {
		if node == "" {
			r.HealAll()
		} else {
			r.Heal(node, other)
		}
		return nil
	}
}

func parseLink(f *fields) func(*Registry) error {
	from, to := f.textOr("from", ""), f.textOr("to", "")
	l := Link{
		Latency:   f.durationOr("latency", 0),
		Jitter:    f.durationOr("jitter", 0),
		Loss:      f.chance("loss"),
		Duplicate: f.chance("duplicate"),
		Reorder:   f.chance("reorder"),
		Bandwidth: f.count("bandwidth"),
	}
	return func(r *Registry) error { r.SetLink(from, to, l); return nil }
}

func (f *fields) code(missing protocol.Code) protocol.Code {
	name := f.textOr("code", "")
	if name == "" {
		return missing
	}
	var known []string
	for _, c := range protocol.Codes() {
		if c.Name() == name {
			return c
		}
		known = append(known, c.Name())
	}
	f.fail("code", "no error is called %q; there are %s", name, strings.Join(known, ", "))
	return missing
}

// times is how often something happens; without end when the field is missing.
func (f *fields) times() int {
	if !f.has("times") {
		f.read = append(f.read, "times")
		return -1
	}
	n := f.count("times")
	if n == 0 {
		f.fail("times", "0 is never")
	}
	return n
}

func parseRefuse(f *fields) func(*Registry) error {
	x := Failure{Op: OpConnect, Node: f.textOr("node", ""), Times: f.times(), Code: f.code(protocol.ErrDraining), RetryAfter: f.durationOr("retry_after", 0)}
	return func(r *Registry) error { r.Fail(x); return nil }
}

func parseFail(f *fields) func(*Registry) error {
	x := Failure{
		Op:         Op(f.text("op")),
		Node:       f.textOr("node", ""),
		Topic:      f.textOr("topic", ""),
		Skip:       f.count("skip"),
		Times:      f.times(),
		Code:       f.code(protocol.ErrInternal),
		RetryAfter: f.durationOr("retry_after", 0),
	}
	oneOf(f, "op", x.Op, Ops())
	return func(r *Registry) error { r.Fail(x); return nil }
}

func oneOf[T ~string](f *fields, name string, got T, all []T) {
	var known []string
	for _, x := range all {
		if x == got {
			return
		}
		known = append(known, string(x))
	}
	f.fail(name, "%q is not one of %s", got, strings.Join(known, ", "))
}

func parseDelayAcks(f *fields) func(*Registry) error {
	node, delay := f.textOr("node", ""), f.duration("delay")
	return func(r *Registry) error { r.DelayAcks(node, delay); return nil }
}

func parseDropAcks(f *fields) func(*Registry) error {
	node, n := f.textOr("node", ""), f.times()
	return func(r *Registry) error { r.DropAcks(node, n); return nil }
}

func parseCrashAt(f *fields) func(*Registry) error {
	x := Failpoint{Point: Point(f.text("point")), Node: f.textOr("node", ""), Topic: f.textOr("topic", ""), Skip: f.count("skip")}
	down := f.durationOr("down", 0)
	oneOf(f, "point", x.Point, Points())
	return func(r *Registry) error {
		x.Do = func(Hit) error { r.CrashFor(down); return nil }
		r.At(x)
		return nil
	}
}

func parseShutdown(f *fields) func(*Registry) error {
	within := f.durationOr("within", 5*time.Second)
	return func(r *Registry) error {
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		return r.Shutdown(ctx)
	}
}

func parseStorageFull(f *fields) func(*Registry) error {
	full := f.flag("full", true)
	return func(r *Registry) error { r.StorageFull(full); return nil }
}

func parseRetention(f *fields) func(*Registry) error {
	keep := Retention{
		Messages:   f.count("messages"),
		Versions:   f.count("versions"),
		Age:        f.durationOr("age", 0),
		TopicBytes: int64(f.count("topic_bytes")),
		TotalBytes: int64(f.count("total_bytes")),
	}
	return func(r *Registry) error { r.SetRetention(keep); return nil }
}

func parsePurge(f *fields) func(*Registry) error {
	topic := f.text("topic")
	return func(r *Registry) error { r.Purge(topic); return nil }
}

func parseClock(f *fields) func(*Registry) error {
	f.need("offset")
	offset := f.signed("offset", 0)
	return func(r *Registry) error { r.SetClock(offset); return nil }
}

func parseNewKey(f *fields) func(*Registry) error {
	signed := f.flag("signed", true)
	return func(r *Registry) error { r.NewKey(signed); return nil }
}

func parseInject(f *fields) func(*Registry) error {
	m := Raw{From: f.text("from"), Topic: f.text("topic"), Payload: f.bytes("payload"), Slot: f.textOr("slot", "")}
	return func(r *Registry) error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, err := r.Inject(ctx, m)
		return err
	}
}
