package election_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/election"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/protocol"
)

// weather is a schedule of what goes wrong, made from a seed alone: faults of the
// registry and the network as a script of package fakeregistry, and beside it
// what happens to processes.
type weather struct {
	rand   *rand.Rand
	o      worldOptions
	length time.Duration
	faults []fault
	deeds  []deed
	over   time.Duration // when the last of it is
}

// fault is a line of a script.
type fault struct {
	at     time.Duration
	fields map[string]any
}

// deed happens to a process.
type deed struct {
	at   time.Duration
	text string
	do   func(w *world)
}

// newWeather lets something go wrong every so often, for length.
func newWeather(o worldOptions, length, every time.Duration) *weather {
	w := &weather{rand: rand.New(rand.NewPCG(o.seed, 3)), o: o, length: length}
	for at := w.between(0, 2*every); at < length; at += w.between(0, 2*every) {
		w.next(at)
	}
	slices.SortStableFunc(w.faults, func(a, b fault) int { return int(a.at - b.at) })
	slices.SortStableFunc(w.deeds, func(a, b deed) int { return int(a.at - b.at) })
	return w
}

func (w *weather) between(lo, hi time.Duration) time.Duration {
	return (lo + time.Duration(w.rand.Int64N(int64(hi-lo)+1))).Round(time.Millisecond)
}

// long is how long something is wrong: about a silence, and now and then for so
// long that connections are given up.
func (w *weather) long() time.Duration {
	f := w.o.timing.Silence
	if w.rand.IntN(10) == 0 {
		return w.between(5*time.Second, 20*time.Second)
	}
	return w.between(f/10, 3*f)
}

func (w *weather) fault(at time.Duration, do string, fields ...any) {
	m := map[string]any{"do": do}
	for i := 0; i < len(fields); i += 2 {
		m[fields[i].(string)] = fields[i+1]
	}
	w.faults = append(w.faults, fault{at, m})
	w.over = max(w.over, at)
}

func (w *weather) deed(at time.Duration, text string, do func(w *world)) {
	w.deeds = append(w.deeds, deed{at, text, do})
	w.over = max(w.over, at)
}

func (w *weather) next(at time.Duration) {
	i := w.rand.IntN(w.o.nodes)
	node, end := nodeName(i), at+w.long()
	switch w.rand.IntN(26) {
	case 0, 1, 2:
		direction := []string{"both", "to", "from"}[w.rand.IntN(3)]
		w.fault(at, "partition", "node", node, "direction", direction)
		w.fault(end, "heal", "node", node)
	case 3, 4:
		w.badLink(at, end, node)
	case 5:
		w.fault(at, "stall", "node", node)
		w.fault(end, "unstall", "node", node)
	case 6:
		w.fault(at, "mute", "node", node)
		w.fault(end, "unmute", "node", node)
	case 7:
		w.fault(at, "disconnect", "node", node)
	case 8:
		w.fault(at, "delay_acks", "node", node, "delay", w.between(0, w.o.timing.Silence).String())
		w.fault(end, "delay_acks", "node", node, "delay", "0s")
	case 9:
		w.fault(at, "restart")
	case 10:
		w.fault(at, "restart_empty")
	case 11:
		w.fault(at, "stop")
		w.fault(end, []string{"start", "start_empty"}[w.rand.IntN(2)])
	case 12:
		w.fault(at, "shutdown", "within", "100ms")
		w.fault(end, "start")
	case 13:
		w.fault(at, "purge", "topic", topic)
	case 14:
		w.fault(at, "clock", "offset", (time.Duration(w.rand.IntN(7)-3) * time.Hour).String())
	case 15:
		w.fault(at, "retention", "messages", 2+w.rand.IntN(30))
	case 16:
		w.fault(at, "storage_full")
		w.fault(end, "storage_full", "full", false)
	case 17:
		w.once(at, node)
	case 18:
		w.junk(at)
	case 19, 20:
		w.deed(at, "kill "+node, func(x *world) { x.nodes[i].kill() })
		w.deed(end, "start "+node, func(x *world) {
			if x.nodes[i].dead.Load() {
				x.nodes[i] = x.start(node, true)
			}
		})
	case 21:
		long := end - at
		w.deed(at, fmt.Sprintf("pause %s for %v", node, long), func(x *world) { x.nodes[i].pause(long) })
		w.over = max(w.over, end)
	case 22:
		w.deed(at, "resign", func(x *world) {
			for _, p := range x.nodes {
				p.resign()
			}
		})
	case 23:
		w.deed(at, "withdraw "+node, func(x *world) { x.tasks.Go(x.nodes[i].withdraw) })
		w.deed(end, "campaign "+node, func(x *world) { x.nodes[i].stand() })
	case 24:
		twin := new(*process)
		w.deed(at, "twin of "+node, func(x *world) { *twin = x.start(node, true) })
		w.deed(end, "end of the twin of "+node, func(*world) { (*twin).kill() })
	case 25:
		step := time.Duration(w.rand.IntN(7)-3) * time.Hour
		w.deed(at, fmt.Sprintf("wall clock of %s by %v", node, step), func(x *world) { x.nodes[i].wall.Store(int64(step)) })
	}
}

// badLink loses, delays and reorders packets, on the way there or back.
func (w *weather) badLink(at, end time.Duration, node string) {
	from, to := node, fakeregistry.Host
	if w.rand.IntN(2) == 0 {
		from, to = to, from
	}
	good := []any{"from", from, "to", to, "latency", w.o.latency.String()}
	w.fault(at, "link", "from", from, "to", to,
		"latency", w.between(w.o.latency, 10*w.o.latency).String(), "jitter", w.between(0, 10*w.o.latency).String(),
		"loss", float64(w.rand.IntN(30))/100, "reorder", float64(w.rand.IntN(30))/100, "duplicate", float64(w.rand.IntN(10))/100)
	w.fault(end, "link", good...)
}

// once are faults that wait for their moment. None may be left when the weather
// is over.
func (w *weather) once(at time.Duration, node string) {
	topic := election.TopicPrefix + group
	switch {
	case at > w.length/2:
	case w.rand.IntN(3) == 0:
		w.fault(at, "drop_acks", "node", node, "times", 1)
	case w.rand.IntN(2) == 0:
		w.fault(at, "fail", "op", "publish", "topic", topic, "times", 1+w.rand.IntN(3), "code", "rate_limited")
	default:
		points := fakeregistry.Points()
		w.fault(at, "crash_at", "point", points[w.rand.IntN(len(points))], "topic", topic,
			"skip", w.rand.IntN(5), "down", w.between(0, w.o.timing.Silence).String())
	}
}

// junk is what scripts say, and what nobody should.
func (w *weather) junk(at time.Duration) {
	script := fmt.Sprint("script", w.rand.IntN(3))
	m := election.Message{
		Kind: election.Kind(1 + w.rand.IntN(4)), Node: fakeregistry.NodeID(script).String(),
		Term: 1 + w.rand.Uint64N(1<<44), Priority: w.rand.Int64N(1 << 33),
	}
	if w.rand.IntN(4) == 0 {
		m.Node = fakeregistry.NodeID(nodeName(0)).String() // names another
	}
	if w.rand.IntN(4) == 0 {
		m.Term = protocol.MaxTerm
	}
	w.fault(at, "inject", "from", script, "topic", topic,
		"payload", json.RawMessage(m.Append(nil, time.Unix(int64(at/time.Second), 0))))
}

// script is the faults in the form that pilotgo registry fake reads.
func (w *weather) script() string {
	var lines []string
	for _, f := range w.faults {
		f.fields["at"] = f.at.String()
		b, err := json.Marshal(f.fields)
		if err != nil {
			panic(err) // texts and numbers
		}
		lines = append(lines, "  "+string(b))
	}
	return "[\n" + strings.Join(lines, ",\n") + "\n]"
}

func (w *weather) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "faults:\n%s\nprocesses:\n", w.script())
	for _, d := range w.deeds {
		fmt.Fprintf(&b, "  %8v %s\n", d.at, d.text)
	}
	return b.String()
}

// rage lets the weather happen, and returns when the last of it is over.
func (w *world) rage(x *weather) {
	w.t.Helper()
	script, err := fakeregistry.ParseFaults([]byte(x.script()))
	require.NoError(w.t, err)
	start := time.Now()
	w.tasks.Go(func() {
		for _, s := range script {
			if !w.sleepUntil(start.Add(s.At)) {
				return
			}
			w.judge.note("%v", s)
			// Injections fail while the registry is down.
			if err := s.Apply(w.reg); err != nil && s.Do != "inject" {
				w.judge.note("%v", err)
			}
		}
	})
	for _, d := range x.deeds {
		time.Sleep(time.Until(start.Add(d.at)))
		w.judge.note("%s", d.text)
		d.do(w)
	}
	time.Sleep(time.Until(start.Add(x.over + time.Millisecond)))
}

func (w *world) sleepUntil(t time.Time) bool {
	select {
	case <-time.After(time.Until(t)):
		return true
	case <-w.over.Done():
		return false
	}
}
