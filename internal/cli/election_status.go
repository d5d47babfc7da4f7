package cli

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/election"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/spf13/cobra"
)

func (a *app) electionStatusCommand() *cobra.Command {
	var o membership
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "status [HOST] GROUP",
		Short: "Show who leads a group, who else stands, and what was before",
		Long: `Show who leads a group, with the term, its epoch and the age of the last heartbeat;
who stands for election; the newest terms that the registry still keeps; the fence of
the group; and how many messages did not count, by why. A leader that was not heard of
for longer than the silence of --profile is none. A group that the registry has nothing
of is "not_found", with exit code 1.`,
		Example: `  pilotgo election status registry.example.com tasks
  pilotgo --json election status tasks | jq -r .leader`,
		Args: arguments(1, 2, "pilotgo election status [HOST] GROUP"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := bounded(cmd.Context(), timeout)
			defer cancel()
			return a.electionStatus(ctx, o, args)
		},
	}
	o.flags(cmd.Flags())
	durationFlag(cmd.Flags(), &timeout, "timeout", connectPatience, "how long to wait for the registry; 0 is for ever")
	return cmd
}

func (a *app) electionStatus(ctx context.Context, o membership, words []string) error {
	at, err := a.placeOf(words)
	if err != nil {
		return err
	}
	s, err := a.takeSeat(ctx, at, o.connection, o.options(at.group))
	if err != nil {
		return err
	}
	defer s.close()
	past, err := readPast(ctx, s.client, at.topic())
	if err != nil {
		return err
	}
	if past.empty() {
		return unknownGroup(ctx, s)
	}
	now, err := settled(ctx, s.Member, past.silence() <= o.timing().Silence)
	if err != nil {
		return err
	}
	r := newReport(now, past, o.timing())
	return a.print(r.object(), func(w *bufio.Writer) { r.writeText(w, a.terminal) })
}

// statusPoll is how often a member is asked whether it knows enough by now.
const statusPoll = 5 * time.Millisecond

// unknownGroup is the error of a group that nobody ever stood in, as far as the
// registry knows: its name may be another.
func unknownGroup(ctx context.Context, s *seat) error {
	return &failure{
		code: protocol.ErrNotFound.Name(), exit: exitError,
		message: fmt.Sprintf("group %q: nobody has stood for election there", s.group),
		hint:    meant(s.group, "groups", groupsOf(ctx, s.client), "to stand in it: pilotgo election run "+s.host.addr+" "+s.group+" -- COMMAND"),
	}
}

// settled is the status of a member once it has read what is retained, and, where
// there should be a leader, once it has heard of it: history alone tells it nothing.
func settled(ctx context.Context, m *election.Member, alive bool) (election.Status, error) {
	for {
		if now := m.Status(); now.Connected && (!alive || !unknown(now.Now.View)) {
			return now, nil
		}
		if err := sleep(ctx, statusPoll); err != nil {
			return election.Status{}, err
		}
	}
}

// past is what the log of a group has kept.
type past struct {
	any   bool // messages
	terms []pastTerm
	heard map[string]time.Time // the last sign of life, by leader and term
	fence protocol.Fence
	now   time.Time // of the registry
}

// pastTerm is a term as its messages tell it.
type pastTerm struct {
	Leader  string  `json:"leader"`
	Term    uint64  `json:"term"`
	Elected string  `json:"elected_at"`
	Ended   *string `json:"ended_at"` // null: it was not ended by a message
	End     string  `json:"end"`      // resigned, superseded, or empty
}

func lifeKey(leader string, term uint64) string { return fmt.Sprintf("%s %d", leader, term) }

// readPast reads what is retained of a group, by registry time.
func readPast(ctx context.Context, c *client.Client, topic string) (*past, error) {
	sub, err := c.Subscribe(ctx, topic, client.FromAll())
	if err != nil {
		return nil, err
	}
	defer sub.Close()
	p := &past{heard: make(map[string]time.Time)}
	for {
		item, err := sub.Next(ctx)
		switch {
		case err != nil:
			return nil, err
		case item.Kind == client.ItemMessage:
			p.read(item.Message)
		case item.Kind == client.ItemCaughtUp:
			p.fence = item.Fence
			info, err := c.Info(ctx)
			p.now = info.Now
			return p, err
		}
	}
}

// silence is how long ago anybody showed a sign of leading.
func (p *past) silence() time.Duration {
	least := time.Duration(math.MaxInt64)
	for _, at := range p.heard {
		least = min(least, p.now.Sub(at))
	}
	return least
}

// empty: there was nothing, and nobody has raised the fence.
func (p *past) empty() bool { return !p.any && p.fence.K == 0 }

func (p *past) read(m *protocol.Message) {
	p.any = true
	e, err := election.Parse(m.Payload)
	if err != nil {
		return
	}
	at, stamped := m.Time.Time(), m.Term() != 0
	switch e.Kind {
	case election.KindClaim:
		if stamped {
			p.supersede(at)
			p.terms = append(p.terms, pastTerm{Leader: e.Node, Term: m.Term(), Elected: milliStamp(at)})
		}
		p.heard[lifeKey(e.Node, e.Term)] = at
	case election.KindHeartbeat:
		p.heard[lifeKey(e.Node, e.Term)] = at
	case election.KindResign:
		if stamped {
			p.resign(m.Term(), at)
		}
	case election.KindCandidacy:
	}
}

func (p *past) last() *pastTerm {
	if len(p.terms) == 0 {
		return nil
	}
	return &p.terms[len(p.terms)-1]
}

func (p *past) supersede(at time.Time) {
	if l := p.last(); l != nil && l.Ended == nil {
		text := milliStamp(at)
		l.Ended, l.End = &text, "superseded"
	}
}

func (p *past) resign(term uint64, at time.Time) {
	if l := p.last(); l != nil && l.Term == term {
		text := milliStamp(at)
		l.Ended, l.End = &text, election.ReasonResigned.String()
	}
}

// report is what status prints.
type report struct {
	election.Status
	past   *past
	age    time.Duration // of the leader's last sign of life; below 0: none is kept
	silent bool          // for too long
}

func newReport(s election.Status, p *past, t election.Timing) *report {
	r := &report{Status: s, past: p, age: -1}
	if unknown(s.Now.View) {
		r.Now.Reason, r.silent = election.ReasonSilent, true
	}
	if s.Now.Leader == "" {
		return r
	}
	if at, ok := p.heard[lifeKey(s.Now.Leader, s.Now.Token.Term)]; ok {
		r.age = max(0, p.now.Sub(at))
	}
	// The member has only just joined, and would wait for as long again.
	if r.silent = r.age > t.Silence; r.silent {
		r.Now.View = election.View{Reason: election.ReasonSilent}
	}
	return r
}

// mostTerms is how many terms of the past are shown.
const mostTerms = 32

func (r *report) object() *object {
	o := new(object).set("group", r.Group).set("topic", r.Topic)
	for _, f := range observed(r.Now).fields {
		if f.key != "at" {
			o.fields = append(o.fields, f)
		}
	}
	o.set("heartbeat_age_ms", nil)
	if r.age >= 0 {
		o.setRaw("heartbeat_age_ms", marshal(r.age.Milliseconds()))
	}
	recent := r.past.terms[max(0, len(r.past.terms)-mostTerms):]
	return o.set("last_change", r.lastChange()).
		set("candidates", r.candidates()).
		set("history", recent).
		set("void", r.voids()).
		set("fence", map[string]uint64{"term": r.past.fence.K, "seq": uint64(r.past.fence.S)}).
		set("best_effort", r.BestEffort)
}

// change is the last thing that happened to who leads.
type change struct {
	Event  string `json:"event"`
	At     string `json:"at"`
	Reason string `json:"reason"`
}

func (r *report) lastChange() *change {
	l := r.past.last()
	switch {
	case l == nil:
		return nil
	case l.Ended != nil:
		return &change{election.ChangeLost.String(), *l.Ended, l.End}
	case r.silent:
		at := r.past.heard[lifeKey(l.Leader, l.Term)]
		return &change{election.ChangeLost.String(), milliStamp(at), election.ReasonSilent.String()}
	}
	return &change{Event: election.ChangeLeader.String(), At: l.Elected}
}

type standing struct {
	Candidate string `json:"candidate"`
	Priority  int64  `json:"priority"`
	Term      uint64 `json:"term"`
	AgeMS     int64  `json:"age_ms"`
}

func (r *report) candidates() []standing {
	var list []standing
	for _, c := range r.Candidates {
		list = append(list, standing{c.Node, c.Priority, c.Term, max(0, r.past.now.Sub(c.At)).Milliseconds()})
	}
	return list
}

func (r *report) voids() map[string]uint64 {
	counts := make(map[string]uint64)
	for why, n := range r.Voids {
		counts[why.String()] = n
	}
	return counts
}

func (r *report) writeText(w *bufio.Writer, terminal bool) {
	switch {
	case r.Now.Leader == "":
		fmt.Fprintf(w, "Leader:      none: %s\n", r.Now.Reason)
	case r.Now.Plain:
		fmt.Fprintf(w, "Leader:      %s, a script, term %d\n", shown(r.Now.Leader, terminal), r.Now.Token.Term)
	default:
		fmt.Fprintf(w, "Leader:      %s, term %d of epoch %s\n", shown(r.Now.Leader, terminal), r.Now.Token.Term, r.Now.Token.Epoch)
	}
	if r.age >= 0 {
		fmt.Fprintf(w, "Heartbeat:   %v ago\n", r.age.Round(time.Millisecond))
	}
	if c := r.lastChange(); c != nil {
		fmt.Fprintf(w, "Last change: %s  %s %s\n", c.At, c.Event, c.Reason)
	}
	fmt.Fprintf(w, "Fence:       term %d, #%d\n", r.past.fence.K, r.past.fence.S)
	for _, c := range r.candidates() {
		fmt.Fprintf(w, "Candidate:   %s, priority %d, %v ago\n", shown(c.Candidate, terminal), c.Priority, time.Duration(c.AgeMS)*time.Millisecond)
	}
	for _, t := range slices.Backward(r.past.terms[max(0, len(r.past.terms)-mostTerms):]) {
		fmt.Fprintf(w, "Term:        %d  %s  elected %s", t.Term, shown(t.Leader, terminal), t.Elected)
		if t.Ended != nil {
			fmt.Fprintf(w, ", %s %s", t.End, *t.Ended)
		}
		w.WriteByte('\n')
	}
	voids := r.voids()
	for _, why := range slices.Sorted(maps.Keys(voids)) {
		fmt.Fprintf(w, "Void:        %d  %s\n", voids[why], why)
	}
}
