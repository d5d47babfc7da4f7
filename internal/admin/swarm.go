package admin

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/pilotgo/pilotgo/config"
	"github.com/pilotgo/pilotgo/protocol"
)

// settle is how long what was found about a swarm is shown before it is looked at
// again: all of its reports are read for it.
const settle = 5 * time.Second

// swarm is one swarm that is looked at.
type swarm struct {
	*config.Swarm
	last  Swarm
	taken time.Time
}

func (w *Watcher) addSwarm(ctx context.Context, name string) error {
	s, err := config.Open(ctx, w.o.Conn, name, config.Options{})
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.swarms[name] = &swarm{Swarm: s, last: Swarm{Name: name}}
	return nil
}

// lookAtSwarms is called by one goroutine at a time, which has the token.
func (w *Watcher) lookAtSwarms(ctx context.Context, s *Snapshot, names map[string]string) error {
	w.mu.Lock()
	swarms := maps.Clone(w.swarms)
	w.mu.Unlock()
	var first error
	for _, name := range slices.Sorted(maps.Keys(swarms)) {
		x := swarms[name]
		if time.Since(x.taken) >= settle {
			if err := x.look(ctx, names); err != nil {
				first = cmp.Or(first, err)
			}
		}
		s.Swarms = append(s.Swarms, x.last)
	}
	return first
}

// look reads the newest version and all reports.
func (s *swarm) look(ctx context.Context, names map[string]string) error {
	row := Swarm{Name: s.Name()}
	newest, err := s.Latest(ctx)
	switch {
	case err == nil:
		row.Version, row.Published, row.Why = newest.Version, newest.Time, newest.Reason
	case !errors.Is(err, protocol.ErrNotFound):
		return err
	}
	c, err := s.Compliance(ctx, config.ComplianceOptions{})
	if err != nil && !errors.Is(err, protocol.ErrNotFound) {
		return err
	}
	row.Applied, row.Pending, row.Stale = c.Counts[config.StateApplied], c.Counts[config.StatePending], c.Counts[config.StateStale]
	row.Rejected, row.Failed = c.Counts[config.StateRejected], c.Counts[config.StateFailed]
	row.Unknown = len(c.Unknown)
	agents := slices.SortedStableFunc(slices.Values(c.Agents), worstFirst)
	for _, a := range agents[:min(len(agents), maxAgents)] {
		id := a.Node.String()
		row.Agents = append(row.Agents, Agent{
			Node: id, Name: cmp.Or(names[id], a.Agent), State: string(a.State), Version: a.AppliedVersion, Age: a.Age, Error: a.Error,
		})
	}
	row.More = len(agents) - len(row.Agents)
	s.last, s.taken = row, time.Now()
	return nil
}

// worstFirst puts the agents that want looking at before the others.
func worstFirst(a, b config.AgentStatus) int {
	rank := func(s config.AgentState) int {
		return slices.Index([]config.AgentState{
			config.StateFailed, config.StateRejected, config.StateStale, config.StatePending, config.StateApplied,
		}, s)
	}
	return cmp.Or(cmp.Compare(rank(a.State), rank(b.State)), cmp.Compare(a.Node, b.Node))
}
