package registry

// Share is how much is used of what there is.
type Share struct{ Used, Limit int }

// Usage tells how near a registry is to its bounds: at one, clients or operators
// are refused with protocol.ErrLimit. Where everybody is let in, the last quarter of
// Nodes, Inboxes and Fences is for nodes that an operator has named.
type Usage struct {
	Sessions      Share
	Subscriptions Share
	Nodes         Share // remembered; those that nobody misses make room
	Inboxes       Share // topics in all inboxes
	Fences        Share // never forgotten
	Tokens        Share // join tokens; those that let in nobody any more make room
	Keys          Share // that an operator or a token has named
}

// Usage is as of now.
func (r *Registry) Usage() Usage {
	u := Usage{
		Sessions:      Share{r.sessionCount(), r.limits.Sessions},
		Subscriptions: Share{int(r.subscriptions.Load()), r.limits.TotalSubscriptions},
	}
	r.seq.view(func(b *broker) {
		o := &b.opts
		u.Nodes = Share{len(b.nodesByID), o.maxNodes}
		u.Inboxes = Share{b.joins, o.maxAllJoins}
		u.Fences = Share{len(b.fences), o.maxFences}
		u.Tokens = Share{len(b.tokens), o.maxTokens}
		u.Keys = Share{len(b.standingOf), o.maxStandings}
	})
	return u
}

// sessionCount counts those before their hello too, as the limit does.
func (r *Registry) sessionCount() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.sessions)
}
