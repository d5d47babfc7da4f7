package admin

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/election"
)

// How much is looked at and shown. What is beyond is counted.
const (
	maxListed = 20_000 // topics or nodes asked for
	maxShown  = 200    // rows of a table
	maxGroups = 200
	maxSwarms = 50
	maxAgents = 50 // of a swarm

	patience = 2 * time.Second // for one look
	fresh    = 900 * time.Millisecond
	discover = 5 * time.Second
)

// WatchOptions say what a Watcher looks at.
type WatchOptions struct {
	// Conn is a client of the registry that may read everything. It stays the
	// caller's, and must be open longer than the Watcher.
	Conn *client.Client

	// Store is what to call the place where the log is.
	Store string

	// Rates are messages a second by topic; nil: not known.
	Rates func() map[string]float64

	Logger *slog.Logger // nil is silent
}

// Watcher looks at a registry as a client of it. Groups are observed all the time,
// so that they have a history; the rest is asked for when somebody wants to see it.
type Watcher struct {
	o    WatchOptions
	ctx  context.Context // ends with Close
	stop context.CancelFunc
	wg   sync.WaitGroup

	looking chan struct{} // holds a token while nobody looks; guards last and taken
	last    *Snapshot
	taken   time.Time

	mu     sync.Mutex // guards what follows
	groups map[string]*election.Member
	swarms map[string]*swarm
	beyond [2]int // groups and swarms that are not looked at
}

// Watch begins to look.
func Watch(o WatchOptions) *Watcher {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	w := &Watcher{o: o, last: &Snapshot{}, looking: make(chan struct{}, 1), groups: map[string]*election.Member{}, swarms: map[string]*swarm{}}
	w.looking <- struct{}{}
	w.ctx, w.stop = context.WithCancel(context.Background())
	w.wg.Go(w.run)
	return w
}

// Close stops looking. It is idempotent and waits.
func (w *Watcher) Close() error {
	w.stop()
	w.wg.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, m := range w.groups {
		m.Close()
		delete(w.groups, name)
	}
	return nil
}

// run looks for groups and swarms that are new.
func (w *Watcher) run() {
	tick := time.NewTicker(discover)
	defer tick.Stop()
	for {
		w.find()
		select {
		case <-tick.C:
		case <-w.ctx.Done():
			return
		}
	}
}

func (w *Watcher) find() {
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	w.findIn(ctx, "election:", maxGroups, &w.beyond[0], w.addGroup, w.keepGroups)
	w.findIn(ctx, "config:", maxSwarms, &w.beyond[1], w.addSwarm, w.keepSwarms)
}

// findIn lists the topics of a prefix. keep is told the names that are looked at
// and ought to be, and returns those that are not looked at yet, which add begins
// to look at.
func (w *Watcher) findIn(ctx context.Context, prefix string, most int, beyond *int, add func(context.Context, string) error, keep func([]string) []string) {
	var names []string
	more := 0
	for topic, err := range w.o.Conn.Topics(ctx, prefix+"*") {
		if err != nil {
			w.o.Logger.Debug("looking for "+prefix+"*", "err", err)
			return
		}
		name := strings.TrimPrefix(topic.Name, prefix)
		switch {
		case strings.Contains(name, ":"): // config:status:SWARM
		case len(names) < most:
			names = append(names, name)
		default:
			more++
		}
	}
	w.mu.Lock()
	*beyond = more
	w.mu.Unlock()
	for _, name := range keep(names) {
		if err := add(ctx, name); err != nil {
			w.o.Logger.Debug("looking at "+prefix+name, "err", err)
		}
	}
}

// keepGroups stops looking at all groups but these: those whose messages are gone
// would use up the subscriptions of the connection.
func (w *Watcher) keepGroups(names []string) (missing []string) {
	w.mu.Lock()
	missing, gone := compare(w.groups, names)
	w.mu.Unlock()
	for _, m := range gone {
		m.Close()
	}
	return missing
}

func (w *Watcher) keepSwarms(names []string) (missing []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	missing, _ = compare(w.swarms, names)
	return missing
}

// compare takes what has none of the names out of a map, and finds the names that
// it has not.
func compare[T any](have map[string]T, names []string) (missing []string, gone []T) {
	wanted := make(map[string]bool, len(names))
	for _, name := range names {
		wanted[name] = true
		if _, ok := have[name]; !ok {
			missing = append(missing, name)
		}
	}
	for name, x := range have {
		if !wanted[name] {
			gone = append(gone, x)
			delete(have, name)
		}
	}
	return missing, gone
}

// addGroup observes a group. How fast it is meant to be is not known here, so a
// leader counts as lost only when no group would wait longer; the next leader is
// seen at once.
func (w *Watcher) addGroup(ctx context.Context, name string) error {
	m, err := election.Join(ctx, w.o.Conn, election.Options{Group: name, Timing: election.Flaky})
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.groups[name] = m
	return nil
}

// Snapshot is what is to be seen now, or was less than a second ago.
func (w *Watcher) Snapshot() *Snapshot {
	<-w.looking
	defer func() { w.looking <- struct{}{} }()
	if time.Since(w.taken) < fresh || w.ctx.Err() != nil {
		return w.last
	}
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	w.last, w.taken = w.look(ctx), time.Now()
	return w.last
}

// look asks for everything. What cannot be had is told, and the rest shown.
func (w *Watcher) look(ctx context.Context) *Snapshot {
	s, names := &Snapshot{At: time.Now()}, map[string]string{}
	for _, part := range []struct {
		what string
		look func() error
	}{
		{"the registry", func() error { return w.lookAtRegistry(ctx, s) }},
		{"topics", func() error { return w.lookAtTopics(ctx, s) }},
		{"nodes", func() error { return w.lookAtNodes(ctx, s, names) }},
		{"swarms", func() error { return w.lookAtSwarms(ctx, s, names) }},
	} {
		if err := part.look(); err != nil {
			s.Trouble = append(s.Trouble, part.what+": "+err.Error())
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s.MoreGroups, s.MoreSwarms = w.beyond[0], w.beyond[1]
	for name, m := range w.groups {
		s.Groups = append(s.Groups, groupOf(name, m.Status(), names))
	}
	slices.SortFunc(s.Groups, func(a, b Group) int { return cmp.Compare(a.Name, b.Name) })
	return s
}

func (w *Watcher) lookAtRegistry(ctx context.Context, s *Snapshot) error {
	info, err := w.o.Conn.Info(ctx)
	if err != nil {
		s.Registry.Store = w.o.Store
		return err
	}
	s.Registry = Registry{
		Address: info.Address, Fingerprint: info.Key, Software: info.Software, Store: w.o.Store,
		Epoch: info.Epoch.ID.String(), Born: time.Unix(int64(info.Epoch.Born), 0), Started: info.Started,
		Head: uint64(info.Head), Nodes: info.Nodes, Online: info.Online, Sessions: info.Sessions,
		Readers: info.Subscriptions, Messages: info.Messages, Bytes: info.Bytes,
	}
	return nil
}

func (w *Watcher) lookAtTopics(ctx context.Context, s *Snapshot) error {
	var rates map[string]float64
	if w.o.Rates != nil {
		rates = w.o.Rates()
	}
	for t, err := range w.o.Conn.Topics(ctx, "*") {
		if err != nil {
			return err
		}
		s.Topics = append(s.Topics, Topic{Name: t.Name, Messages: t.Messages, Bytes: t.Bytes, Rate: rates[t.Name], Fence: t.Fence.K})
		if len(s.Topics) == maxListed {
			break
		}
	}
	slices.SortStableFunc(s.Topics, func(a, b Topic) int { return cmp.Compare(b.Rate, a.Rate) })
	s.MoreTopics = cut(&s.Topics)
	return nil
}

func (w *Watcher) lookAtNodes(ctx context.Context, s *Snapshot, names map[string]string) error {
	for n, err := range w.o.Conn.Nodes(ctx, client.NodesOptions{}) {
		if err != nil {
			return err
		}
		id := n.ID.String()
		names[id] = n.Name
		s.Nodes = append(s.Nodes, Node{ID: id, Name: n.Name, Labels: n.Tags, Online: n.Online, Seen: n.LastSeen.Time()})
		if len(s.Nodes) == maxListed {
			break
		}
	}
	slices.SortStableFunc(s.Nodes, func(a, b Node) int {
		return cmp.Or(cmp.Compare(min(b.Online, 1), min(a.Online, 1)), b.Seen.Compare(a.Seen))
	})
	s.MoreNodes = cut(&s.Nodes)
	return nil
}

// cut shortens a table to what is shown and tells how much it took.
func cut[T any](rows *[]T) int {
	more := max(0, len(*rows)-maxShown)
	*rows = (*rows)[:len(*rows)-more]
	return more
}

func groupOf(name string, s election.Status, names map[string]string) Group {
	now := s.Now
	g := Group{
		Name: name, Leader: now.Leader, LeaderName: names[now.Leader], Plain: now.Plain, Term: now.Token.Term,
		Since: now.At, Heard: s.Heard, Candidates: len(s.Candidates),
	}
	if now.Leader == "" {
		g.Reason = now.Reason.String()
	}
	for _, n := range s.Voids {
		g.Void += n
	}
	for _, o := range slices.Backward(s.History) {
		c := Change{At: o.At, What: o.Change.String(), Leader: o.Leader, Term: o.Token.Term}
		if o.Leader == "" {
			c.Reason = o.Reason.String()
		}
		g.History = append(g.History, c)
	}
	return g
}
