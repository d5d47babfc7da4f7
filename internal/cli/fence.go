package cli

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/pilotgo/pilotgo/election"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/spf13/pflag"
)

// fencing puts a publish under the fence of a group's election: the registry
// refuses it once another term has begun.
type fencing struct {
	token    token
	asLeader bool
}

func (o *fencing) flags(f *pflag.FlagSet) {
	f.BoolVar(&o.asLeader, "as-leader", false, "only while the term of PILOTGO_GROUP, PILOTGO_TERM and PILOTGO_EPOCH lasts, as 'election run' sets them")
	f.Var(&o.token, "fence", "only while this term lasts: GROUP:TERM@EPOCH")
}

func (o *fencing) asked() bool { return o.asLeader || o.token.group != "" }

// conditions are those of the publish; none where no fence was asked for.
func (o *fencing) conditions() ([]protocol.Condition, error) {
	t := o.token
	switch {
	case o.asLeader && t.group != "":
		return nil, usagef("--as-leader and --fence both name a term")
	case o.asLeader:
		var err error
		if t, err = tokenOf(os.Getenv("PILOTGO_GROUP"), os.Getenv("PILOTGO_TERM"), os.Getenv("PILOTGO_EPOCH")); err != nil {
			e := usagef("--as-leader needs PILOTGO_GROUP, PILOTGO_TERM and PILOTGO_EPOCH: %v", err)
			e.hint = "'pilotgo election run' sets them for its command"
			return nil, e
		}
	case t.group == "":
		return nil, nil
	}
	return []protocol.Condition{{Topic: election.TopicPrefix + t.group, Epoch: t.Epoch, Term: t.Term}}, nil
}

// token is a flag: GROUP:TERM@EPOCH.
type token struct {
	election.Token
	group string
}

func (t *token) Type() string { return "GROUP:TERM@EPOCH" }

func (t *token) String() string {
	if t.group == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d@%s", t.group, t.Term, t.Epoch)
}

// Set cuts from the right: a group's name may hold both marks.
func (t *token) Set(s string) (err error) {
	rest, epoch := cutLast(s, "@")
	group, term := cutLast(rest, ":")
	*t, err = tokenOf(group, term, epoch)
	return err
}

func cutLast(s, sep string) (before, after string) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, ""
	}
	return s[:i], s[i+len(sep):]
}

func tokenOf(group, term, epoch string) (token, error) {
	t := token{group: group}
	if group == "" {
		return token{}, usagef("the group is missing")
	}
	var err error
	if t.Term, err = strconv.ParseUint(term, 10, 64); err != nil || t.Term < 1 || t.Term > protocol.MaxTerm {
		return token{}, usagef("%q is no term", term)
	}
	if t.Epoch, err = protocol.ParseEpochID(epoch); err != nil || t.Epoch == 0 {
		return token{}, usagef("%q is no epoch", epoch)
	}
	return t, protocol.ValidTopic(election.TopicPrefix + group)
}

// shellQuoted is s as one word for a shell.
func shellQuoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
