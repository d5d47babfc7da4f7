package client

import "time"

// How soon a registry that has gone is missed. It acknowledges what comes to it
// within a round trip, however long its log takes: its transport does. So silence
// is measured only while an answer is due, and a publish that waits for a slow disk
// is no silence, as long as pings are answered.
const (
	// lookEvery is how often the traffic is looked at while an answer is due.
	lookEvery = 125 * time.Millisecond

	// knockAfter is the silence after which the client asks its system whether
	// anybody still listens there, and again after knockEvery.
	knockAfter = 250 * time.Millisecond
	knockEvery = 500 * time.Millisecond

	// leaveAfter is the silence after which another address of the log is dialled
	// beside the connection.
	leaveAfter = time.Second

	// askEvery is how often at most a registry that owes an answer is asked
	// whether it is there.
	askEvery = time.Second
)

// watch measures a registry's silence by the packets of its connection.
type watch struct {
	received, sent uint64 // when it was last heard
	looked         time.Time
	silence        time.Duration
}

// begin measures from now on: an answer has become due.
func (w *watch) begin(now time.Time, received, sent uint64) {
	*w = watch{received: received, sent: sent, looked: now}
}

// look takes the traffic up to now.
func (w *watch) look(now time.Time, received, sent uint64) {
	if received != w.received {
		w.begin(now, received, sent)
		return
	}
	// Of the time in which this process was not run the registry's packets may be
	// waiting to be read.
	w.silence += min(now.Sub(w.looked), 2*lookEvery)
	w.looked = now
}

// owing reports whether packets went out to which the registry's transport should
// have said something: not just one, which may be for what came last.
func (w *watch) owing(sent uint64) bool { return sent >= w.sent+2 }

// silent reports whether the silence has lasted for d, or longer than the network
// explains: rounds of what an acknowledgement may take.
func (w *watch) silent(d time.Duration, rounds int, patience time.Duration) bool {
	return w.silence >= max(d, time.Duration(rounds)*patience)
}
