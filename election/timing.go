package election

import (
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// Timing is how fast a group notices and how patient it is. All members of a
// group use the same one.
//
// From the death of a leader to the next accepted claim it takes about
// Silence − Heartbeat/2 + 0.8 Jitter + Window + one round trip.
type Timing struct {
	Heartbeat time.Duration // from one heartbeat of a leader to its next
	Lease     time.Duration // a leader leads this long from the sending of a heartbeat that passed
	Silence   time.Duration // others act after hearing nothing for so long
	Jitter    time.Duration // and a random part of this, seldom a short one
	Window    time.Duration // for other candidacies to arrive
	Rank      time.Duration // a candidate waits this much longer for each higher one, at most three
	Stop      time.Duration // work is told to stop so long before the lease ends

	// What the numbers above allow for.
	OneWay time.Duration // from a member to another through the registry, 99 of 100 times
	Pause  time.Duration // of a process, besides two late heartbeats
}

// The profiles.
var (
	// LAN is for members near their registry.
	LAN = Timing{
		Heartbeat: 80 * time.Millisecond, Lease: 320 * time.Millisecond, Silence: 400 * time.Millisecond,
		Jitter: 20 * time.Millisecond, Window: 30 * time.Millisecond, Rank: 30 * time.Millisecond,
		Stop: 100 * time.Millisecond, OneWay: 5 * time.Millisecond, Pause: 50 * time.Millisecond,
	}

	// WAN is for members and a registry on different continents.
	WAN = Timing{
		Heartbeat: time.Second, Lease: 4 * time.Second, Silence: 5 * time.Second,
		Jitter: 250 * time.Millisecond, Window: 500 * time.Millisecond, Rank: 500 * time.Millisecond,
		Stop: time.Second, OneWay: 125 * time.Millisecond, Pause: 750 * time.Millisecond,
	}

	// Flaky is for links that come and go.
	Flaky = Timing{
		Heartbeat: 3 * time.Second, Lease: 15 * time.Second, Silence: 20 * time.Second,
		Jitter: time.Second, Window: 2 * time.Second, Rank: 2 * time.Second,
		Stop: 4 * time.Second, OneWay: 500 * time.Millisecond, Pause: 4 * time.Second,
	}

	// Mixed is for groups in which scripts take part: the recipe sleeps 10 s for
	// candidacies and calls a leader dead after 10 s.
	Mixed = Timing{
		Heartbeat: 2 * time.Second, Lease: 10 * time.Second, Silence: 15 * time.Second,
		Jitter: time.Second, Window: 12 * time.Second, Rank: 2 * time.Second,
		Stop: 2 * time.Second, OneWay: time.Second, Pause: 2 * time.Second,
	}
)

// drift is the rate error that a clock may have. Silence must outlast a Lease
// that runs on a slow clock while the silence runs on a fast one.
const drift = 0.01

// Validate tells which inequality does not hold: between them they make sure
// that a lease is over before others act, that late heartbeats do not end it,
// and that the higher candidate is usually first. The error is
// protocol.ErrInvalid.
func (t Timing) Validate() error {
	for _, d := range []struct {
		name string
		d    time.Duration
	}{
		{"heartbeat", t.Heartbeat}, {"lease", t.Lease}, {"silence", t.Silence}, {"stop", t.Stop},
		{"window", t.Window}, {"rank", t.Rank}, {"one way", t.OneWay},
	} {
		if d.d <= 0 {
			return protocol.Errorf(protocol.ErrInvalid, "timing: %s is %v, not above 0", d.name, d.d)
		}
	}
	switch most := max(t.Heartbeat, t.Lease, t.Silence, t.Stop, t.Window, t.Rank, t.OneWay, t.Pause); {
	case t.Jitter < 0 || t.Pause < 0:
		return protocol.Errorf(protocol.ErrInvalid, "timing: jitter (%v) or pause (%v) is below 0", t.Jitter, t.Pause)
	case most > longest:
		return protocol.Errorf(protocol.ErrInvalid, "timing: %v is more than %v", most, longest)
	}
	granularity := max(5*time.Millisecond, t.Lease/50)
	safe := time.Duration(float64(t.Lease)*(1+drift)/(1-drift)) + granularity
	for _, x := range []struct {
		inequality  string
		left, right time.Duration
		without     string
	}{
		{"lease - stop >= 2*heartbeat + 2*one way + pause", t.Lease - t.Stop, 2*t.Heartbeat + 2*t.OneWay + t.Pause, "two late heartbeats end a leadership"},
		{"silence >= lease*1.01/0.99 + max(5ms, lease/50)", t.Silence, safe, "others act before a lease on another clock is over"},
		{"window >= jitter + 2*one way", t.Window, t.Jitter + 2*t.OneWay, "candidacies come too late to count"},
		{"rank >= 2*one way", t.Rank, 2 * t.OneWay, "the claim of a higher candidate comes too late to count"},
	} {
		if x.left < x.right {
			return protocol.Errorf(protocol.ErrInvalid, "timing: %s does not hold: %v < %v, so %s", x.inequality, x.left, x.right, x.without)
		}
	}
	return nil
}

// longest keeps sums of durations far from overflow.
const longest = 30 * 24 * time.Hour
