package access

import (
	"slices"
	"strings"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// Rules are those of one file. They do not change.
type Rules struct{ list []rule }

// rule is one line.
type rule struct {
	line   int
	text   string
	allow  bool
	who    []subject
	rights rightSet
	where  []string
}

// subject is whom a rule is about: everybody, the keys with a label, or one key.
type subject struct {
	everybody bool
	label     string
	key       protocol.KeyHash
}

func (s subject) is(c *registry.Caller) bool {
	switch {
	case s.everybody:
		return true
	case s.label != "":
		return slices.Contains(c.Labels, s.label)
	}
	return s.key == c.Hash
}

type rightSet uint

func (r rightSet) has(right registry.Right) bool { return r&(1<<right) != 0 }

const (
	everywhere = "*"
	direct     = "$direct"
)

// Len is the number of rules.
func (r *Rules) Len() int { return len(r.list) }

// Verdict is what rules say about a request.
type Verdict struct {
	Allowed bool

	// Partly: of a pattern some topics may be allowed, though not all.
	Partly bool

	// Line has the rule that decided, and Rule its text. 0: no rule applies.
	Line int
	Rule string
}

// Decide finds what the rules say. Topic may be a pattern with RightSubscribe.
// RightAdmit is always allowed.
func (r *Rules) Decide(q *registry.Request) Verdict {
	if q.Right == registry.RightAdmit {
		return Verdict{Allowed: true}
	}
	var v Verdict
	cut := false
	for i := range r.list {
		rule := &r.list[i]
		if !rule.rights.has(q.Right) || !rule.about(&q.Caller) {
			continue
		}
		switch rule.reach(q) {
		case part:
			v.Partly = v.Partly || rule.allow
			if !rule.allow && !cut {
				cut, v.Line, v.Rule = true, rule.line, rule.text
			}
		case whole:
			v.Allowed = rule.allow && !cut
			v.Partly = !v.Allowed && (v.Partly || rule.allow)
			if !cut || !rule.allow {
				v.Line, v.Rule = rule.line, rule.text
			}
			return v
		case nothing:
		}
	}
	return v
}

func (r *rule) about(c *registry.Caller) bool {
	return slices.ContainsFunc(r.who, func(s subject) bool { return s.is(c) })
}

// reach is how much of what is asked for a rule is about.
type reach int

const (
	nothing reach = iota
	part
	whole
)

func (r *rule) reach(q *registry.Request) reach {
	best := nothing
	for _, where := range r.where {
		best = max(best, reachOf(where, q))
	}
	return best
}

func reachOf(where string, q *registry.Request) reach {
	switch {
	case where == everywhere:
		return whole
	case q.Topic == "": // a direct message, or the registry itself
		if where == direct && q.To != 0 {
			return whole
		}
		return nothing
	case where == direct:
		return nothing
	}
	return overlap(where, q.Topic)
}

// overlap is how much of the topics of one pattern another has.
func overlap(pattern, asked string) reach {
	stem, star := strings.CutSuffix(pattern, "*")
	askedStem, askedStar := strings.CutSuffix(asked, "*")
	switch {
	case !star && !askedStar:
		if pattern == asked {
			return whole
		}
	case !star:
		if protocol.Match(asked, pattern) {
			return part
		}
	case !askedStar:
		if protocol.Match(pattern, asked) {
			return whole
		}
	case strings.HasPrefix(askedStem, stem):
		return whole
	case strings.HasPrefix(stem, askedStem):
		return part
	}
	return nothing
}
