package cli

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/spf13/cobra"
)

type benchOptions struct {
	connection
	duration    time.Duration
	size        int
	inFlight    int
	subscribers int
	tests       []string
	samples     bool
}

// benchTest is one measurement.
type benchTest struct {
	name, about string
	run         func(*bench, context.Context) error
}

// benchTests are all of them, in the order they are made.
var benchTests = []benchTest{
	{"ack", "one publish after another, each acknowledged", (*bench).acks},
	{"publish", "many publishes in flight, acknowledged", (*bench).publishes},
	{"push", "from a publish to a subscriber on another connection", (*bench).pushes},
	{"fanout", "deliveries to many subscribers", (*bench).fanOut},
}

func (a *app) registryBenchCommand() *cobra.Command {
	var o benchOptions
	var about strings.Builder
	for _, t := range benchTests {
		fmt.Fprintf(&about, "  %-8s %s\n", t.name, t.about)
	}
	cmd := &cobra.Command{
		Use:   "bench [HOST]",
		Short: "Measure a registry",
		Long: `Measure what a registry does for this client, over the network between them, one
thing after another:

` + about.String() + `
From the slowest ack follows which --profile of elections fits, at the load of the moment:
the longer --duration, the surer.

What is published goes to a topic of its own, bench.RANDOM, and stays as long as the
registry's retention says. Latencies are the client's, so they hold its own work too:
measure from where the agents run. A registry in use is slowed down meanwhile.`,
		Example: `  pilotgo registry bench 10.0.0.7
  pilotgo registry bench --tests publish --size 1024 --in-flight 1000 --duration 30s
  pilotgo --json registry bench | jq .results.push.p99_ms`,
		Args: arguments(0, 1, "pilotgo registry bench [HOST]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.bench(cmd.Context(), o, append(args, "")[0])
		},
	}
	f := cmd.Flags()
	o.flags(f, connectPatience)
	durationFlag(f, &o.duration, "duration", 3*time.Second, "how long each measurement goes on, up to 1 h")
	f.IntVar(&o.size, "size", 128, "payload bytes, 16 up to 1 MiB")
	f.IntVar(&o.inFlight, "in-flight", 256, "publishes without an answer at a time, up to 4096")
	f.IntVar(&o.subscribers, "subscribers", 10, "subscribers of fanout, each on a connection of its own, up to 1000; a registry may allow a node fewer")
	f.StringSliceVar(&o.tests, "tests", nil, "only these measurements")
	f.BoolVar(&o.samples, "histogram", false, "show how latencies are spread")
	return cmd
}

func (o *benchOptions) check() error {
	switch {
	case o.duration <= 0 || o.duration > time.Hour:
		return usagef("--duration is above 0 and at most 1h")
	case o.size < 16 || o.size > 1<<20:
		return usagef("--size is from 16 to %d", 1<<20)
	case o.inFlight < 1 || o.inFlight > 4096:
		return usagef("--in-flight is from 1 to 4096")
	case o.subscribers < 1 || o.subscribers > 1000:
		return usagef("--subscribers is from 1 to 1000")
	}
	for _, name := range o.tests {
		if !slices.ContainsFunc(benchTests, func(t benchTest) bool { return t.name == name }) {
			return usagef("there is no measurement %q", name)
		}
	}
	return nil
}

// bench is one run of measurements.
type bench struct {
	*app
	benchOptions
	host  host
	topic string

	began  time.Time    // of all, the clock in payloads
	name   string       // of the measurement at work
	events atomic.Int64 // acks or deliveries of it
	result *benchResult // of it
}

// benchResult is what one measurement found.
type benchResult struct {
	Name      string  `json:"name"`
	Seconds   float64 `json:"seconds"`
	Count     int64   `json:"count"`
	PerSecond float64 `json:"per_second"`
	Bytes     float64 `json:"payload_bytes_per_second"`

	// Of single publishes and pushes, in milliseconds.
	P50 float64 `json:"p50_ms,omitempty"`
	P90 float64 `json:"p90_ms,omitempty"`
	P99 float64 `json:"p99_ms,omitempty"`
	Max float64 `json:"max_ms,omitempty"`

	Histogram []benchBucket `json:"histogram,omitempty"`

	// Of single publishes: the fastest profile of elections that has room for the
	// slowest of them, "" when none has.
	Profile *string `json:"election_profile,omitempty"`
}

// benchBucket counts latencies below a bound and not below the bound before.
type benchBucket struct {
	Below float64 `json:"below_ms"`
	Count int     `json:"count"`
}

func (a *app) bench(ctx context.Context, o benchOptions, word string) error {
	if err := o.check(); err != nil {
		return err
	}
	h, err := a.chosen(word)
	if err != nil {
		return err
	}
	b := &bench{app: a, benchOptions: o, host: h, topic: "bench." + strings.ToLower(rand.Text()), began: time.Now()}
	var results []*benchResult
	for _, t := range benchTests {
		if len(o.tests) > 0 && !slices.Contains(o.tests, t.name) {
			continue
		}
		b.name, b.result = t.name, &benchResult{Name: t.name}
		b.events.Store(0)
		stop := b.progress()
		err := t.run(b, ctx)
		stop()
		if err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		results = append(results, b.result)
	}
	return b.show(results)
}

func (b *bench) show(results []*benchResult) error {
	byName := map[string]*benchResult{}
	for _, r := range results {
		byName[r.Name] = r
	}
	o := new(object).set("host", b.host.addr).set("topic", b.topic).set("size", b.size).
		set("in_flight", b.inFlight).set("subscribers", b.subscribers).set("results", byName)
	return b.print(o, func(w *bufio.Writer) {
		fmt.Fprintf(w, "%-8s %12s %10s %10s %10s %10s %12s\n", "", "a second", "p50", "p90", "p99", "worst", "payload")
		for _, r := range results {
			fmt.Fprintf(w, "%-8s %12.0f", r.Name, r.PerSecond)
			for _, ms := range []float64{r.P50, r.P90, r.P99, r.Max} {
				if r.P50 == 0 {
					fmt.Fprintf(w, " %10s", "")
					continue
				}
				fmt.Fprintf(w, " %7.3f ms", ms)
			}
			fmt.Fprintf(w, " %7.1f MB/s\n", r.Bytes/1e6)
		}
		for _, r := range results {
			r.writeProfile(w)
			r.writeHistogram(w)
		}
	})
}

// fastest is the fastest profile with room for publishes that take so long.
func fastest(took time.Duration) string {
	for _, name := range []string{"lan", "wan", "flaky"} {
		if took < roomOf(profiles[name]) {
			return name
		}
	}
	return ""
}

func (r *benchResult) writeProfile(w *bufio.Writer) {
	switch {
	case r.Profile == nil:
	case *r.Profile == "":
		fmt.Fprintf(w, "no election profile has room for publishes of %.1f ms\n", r.Max)
	default:
		room := roomOf(profiles[*r.Profile])
		fmt.Fprintf(w, "elections: --profile %s, which has room for publishes of %v\n", *r.Profile, room)
	}
}

// writeHistogram draws how latencies are spread: a line for each doubling.
func (r *benchResult) writeHistogram(w *bufio.Writer) {
	if len(r.Histogram) == 0 {
		return
	}
	most := slices.MaxFunc(r.Histogram, func(a, b benchBucket) int { return cmp.Compare(a.Count, b.Count) }).Count
	fmt.Fprintf(w, "\n%s\n", r.Name)
	for _, k := range r.Histogram {
		fmt.Fprintf(w, "  below %9.3f ms %9d %s\n", k.Below, k.Count, strings.Repeat("#", (k.Count*40+most-1)/most))
	}
}

// progress shows on a terminal how far the measurement is; call what it returns.
func (b *bench) progress() (stop func()) {
	if b.json || !isTerminal(b.err) {
		return func() {}
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for began := time.Now(); ; {
			part := min(1, time.Since(began).Seconds()/b.duration.Seconds())
			bar := strings.Repeat("#", int(part*30))
			fmt.Fprintf(b.err, "\r%-8s [%-30s] %3.0f %% %12d", b.name, bar, part*100, b.events.Load())
			select {
			case <-tick.C:
			case <-done:
				fmt.Fprintf(b.err, "\r%*s\r", 70, "")
				return
			}
		}
	})
	return func() { close(done); wg.Wait() }
}

// client dials another connection.
func (b *bench) client(ctx context.Context) (*client.Client, error) {
	ctx, cancel := bounded(ctx, b.timeout)
	defer cancel()
	return b.dial(ctx, b.host, b.connection)
}

// rate notes how many events there were in what time.
func (b *bench) rate(took time.Duration) {
	r := b.result
	r.Seconds, r.Count = took.Seconds(), b.events.Load()
	r.PerSecond = float64(r.Count) / r.Seconds
	r.Bytes = r.PerSecond * float64(b.size)
}

// spread notes latencies, which it sorts.
func (b *bench) spread(took []time.Duration) {
	if len(took) == 0 {
		return
	}
	slices.Sort(took)
	at := func(q float64) float64 { return float64(took[int(q*float64(len(took)-1))].Microseconds()) / 1000 }
	r := b.result
	r.P50, r.P90, r.P99, r.Max = at(.5), at(.9), at(.99), at(1)
	if b.name == "ack" {
		profile := fastest(took[len(took)-1])
		r.Profile = &profile
	}
	if b.samples || b.json {
		r.Histogram = histogram(took)
	}
}

// histogram counts sorted latencies by doublings of a microsecond.
func histogram(took []time.Duration) (list []benchBucket) {
	below := time.Microsecond
	for _, t := range took {
		for t >= below || len(list) == 0 {
			if below *= 2; t < below || len(list) > 0 {
				list = append(list, benchBucket{Below: below.Seconds() * 1000})
			}
		}
		list[len(list)-1].Count++
	}
	return list
}

// payload is one of the size, which begins with its time and number.
func (b *bench) payload(n uint64) []byte {
	p := make([]byte, b.size)
	binary.BigEndian.PutUint64(p, uint64(time.Since(b.began)))
	binary.BigEndian.PutUint64(p[8:], n)
	return p
}

// age is how long ago a payload was made.
func (b *bench) age(payload []byte) time.Duration {
	if len(payload) < 16 {
		return 0
	}
	return time.Since(b.began) - time.Duration(binary.BigEndian.Uint64(payload))
}

func (b *bench) acks(ctx context.Context) error {
	c, err := b.client(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	var took []time.Duration
	began := time.Now()
	for time.Since(began) < b.duration {
		p := b.payload(0)
		if _, err := c.PublishTo(ctx, b.topic, p); err != nil {
			return err
		}
		took = append(took, b.age(p))
		b.events.Add(1)
	}
	b.rate(time.Since(began))
	b.spread(took)
	return nil
}

func (b *bench) publishes(ctx context.Context) error {
	c, err := b.client(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	began := time.Now()
	if err := b.pump(ctx, c, began); err != nil {
		return err
	}
	b.rate(time.Since(began))
	return nil
}

// pump publishes for the duration with as many in flight as asked for, and counts
// the acks.
func (b *bench) pump(ctx context.Context, c *client.Client, began time.Time) error {
	pending := make(chan client.Pending, b.inFlight-1)
	failed := make(chan error, 1)
	go func() {
		var first error
		for p := range pending {
			if _, err := p.Wait(ctx); err != nil {
				first = cmp.Or(first, err)
				continue
			}
			b.events.Add(1)
		}
		failed <- first
	}()
	for n := uint64(0); time.Since(began) < b.duration && ctx.Err() == nil; n++ {
		pending <- c.Publish(ctx, client.Publication{Topic: b.topic, Payload: b.payload(n)})
	}
	close(pending)
	return <-failed
}

// reader subscribes on a connection of its own.
func (b *bench) reader(ctx context.Context) (*client.Client, client.Stream, error) {
	c, err := b.client(ctx)
	if err != nil {
		return nil, nil, err
	}
	sub, err := c.Subscribe(ctx, b.topic)
	if err != nil {
		c.Close()
		return nil, nil, err
	}
	return c, sub, nil
}

func (b *bench) pushes(ctx context.Context) error {
	out, err := b.client(ctx)
	if err != nil {
		return err
	}
	defer out.Close()
	in, sub, err := b.reader(ctx)
	if err != nil {
		return err
	}
	defer in.Close()
	var took []time.Duration
	began := time.Now()
	for n := uint64(0); time.Since(began) < b.duration; n++ {
		p := out.Publish(ctx, client.Publication{Topic: b.topic, Payload: b.payload(n)})
		at, err := b.arrival(ctx, sub, n)
		if err != nil {
			return err
		}
		took = append(took, at)
		b.events.Add(1)
		if _, err := p.Wait(ctx); err != nil {
			return err
		}
	}
	b.rate(time.Since(began))
	b.spread(took)
	return nil
}

// arrival waits for the message with a number and tells its age.
func (b *bench) arrival(ctx context.Context, sub client.Stream, n uint64) (time.Duration, error) {
	for m, err := range client.Messages(ctx, sub) {
		if err != nil {
			return 0, err
		}
		if len(m.Payload) == b.size && binary.BigEndian.Uint64(m.Payload[8:]) == n {
			return b.age(m.Payload), nil
		}
	}
	return 0, protocol.ErrClosed
}

func (b *bench) fanOut(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out, err := b.client(ctx)
	if err != nil {
		return err
	}
	defer out.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	var got atomic.Int64
	for range b.subscribers {
		in, sub, err := b.reader(ctx)
		if err != nil {
			return err
		}
		wg.Go(func() {
			defer in.Close()
			for _, err := range client.Messages(ctx, sub) {
				if err != nil {
					cancel(err)
					return
				}
				got.Add(1)
			}
		})
	}
	began := time.Now()
	if err := b.pump(ctx, out, began); err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	// What was published counts when all have it; readers that are far behind
	// do not hold the measurement up for ever.
	want := b.events.Load() * int64(b.subscribers)
	for late := time.Now(); got.Load() < want && time.Since(late) < b.duration+connectPatience; {
		if err := sleep(ctx, 5*time.Millisecond); err != nil {
			return context.Cause(ctx)
		}
	}
	b.events.Store(got.Load())
	b.rate(time.Since(began))
	return nil
}
