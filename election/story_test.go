package election

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
)

var update = flag.Bool("update", false, "write the transcripts anew")

// Each file of testdata tells a story: lines that begin with ">" say what
// happens, those below them what the members did. Later letters stand higher.
// Heartbeats are left out, and what a process counts a second time.
//
//	> join a b        two candidates
//	> observe o       an observer
//	> run 500ms       time passes
//	> kill a          a's process dies; join starts another
//	> cut a 2s        a's link loses all for so long; "cut a up 2s", "cut a down 2s" one way
//	> drop a          a's connection breaks and comes back
//	> pause a 1s      a's process stands still
//	> stall a 1s      only what a reads is late
//	> resign a [b]    a is asked by its own program; b is to follow it
//	> ask a           another process of a's node asks
//	> withdraw a      and campaign a
//	> script s claim 7 [clock]    also heartbeat, election
//	> twin a          another process of a's node
//	> purge           all messages leave the log
//	> restart 100ms   the registry stops for so long
//	> lose 100ms      the same, and its log is lost
//	> preempt 1s      from the beginning on
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			got := retell(t, string(text))
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
			}
			require.Equal(t, string(text), got, "with -update it is written anew")
		})
	}
}

type story struct {
	*sim
	t       *testing.T
	out     strings.Builder
	nodes   map[string]protocol.NodeID
	names   map[string]string // of ids
	counted map[string]bool
}

// retell runs the lines of a story and returns it as it is told now.
func retell(t *testing.T, text string) string {
	o := simOptions{timing: LAN, born: 100, delay: [2]time.Duration{time.Millisecond, time.Millisecond}}
	st := &story{sim: newSim(1, o), t: t, nodes: map[string]protocol.NodeID{}, names: map[string]string{}, counted: map[string]bool{}}
	st.watch = st.note
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "#") {
			fmt.Fprintln(&st.out, line)
		}
		if command, ok := strings.CutPrefix(line, "> "); ok {
			fmt.Fprintf(&st.out, "\n> %s\n", command)
			st.obey(strings.Fields(command))
		}
	}
	require.Empty(t, st.broken)
	return st.out.String()
}

// note writes down what a process does.
func (st *story) note(p *proc, a action) {
	if s, ok := a.(sendAction); ok && s.Message.Kind == KindHeartbeat {
		return
	}
	text, _, _ := strings.Cut(tell(a), " until") // its own clock would say
	if c, ok := a.(countAction); ok {
		text += " of " + c.Sender.String()
		if key := p.name + text; st.counted[key] {
			return
		} else {
			st.counted[key] = true
		}
	}
	if text == "" {
		return
	}
	for id, name := range st.names {
		text = strings.ReplaceAll(text, id, name)
	}
	fmt.Fprintf(&st.out, "%9.1f %s: %s\n", float64(st.now)/float64(time.Millisecond), p.name, text)
}

func (st *story) node(name string) protocol.NodeID {
	n, ok := st.nodes[name]
	if !ok {
		n = firstNode + protocol.NodeID(name[0])
		st.nodes[name] = n
		st.names[n.String()] = name
	}
	return n
}

// proc is the newest process of a name.
func (st *story) proc(name string) *proc {
	for i := len(st.procs) - 1; i >= 0; i-- {
		if st.procs[i].name == name {
			return st.procs[i]
		}
	}
	st.t.Fatalf("nobody is called %s", name)
	return nil
}

func (st *story) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	require.NoError(st.t, err)
	return d
}

func (st *story) obey(f []string) {
	last := f[len(f)-1]
	switch f[0] {
	case "join":
		for _, name := range f[1:] {
			st.member(name, st.node(name), int64(name[0]))
		}
	case "observe":
		st.join(f[1], st.node(f[1]), 0, 0xbb)
	case "twin":
		st.member(f[1]+"'", st.node(f[1]), int64(f[1][0]))
	case "preempt":
		st.o.preempt = Preemption{Allowed: true, After: st.duration(last)}
	case "run":
		st.run(st.duration(last))
	case "purge":
		st.reg.purge()
	case "restart":
		st.reg.restart(st.duration(last), true)
	case "lose":
		st.reg.restart(st.duration(last), false)
	case "script":
		st.script(f[1], f[2], f[3:])
	default:
		st.tell(st.proc(f[1]), f)
	}
}

// tell lets something happen to one process.
func (st *story) tell(p *proc, f []string) {
	last := f[len(f)-1]
	switch f[0] {
	case "kill":
		p.kill()
	case "cut":
		p.cut(f[2] != "down", f[2] != "up", st.duration(last))
	case "drop":
		p.drop()
	case "pause":
		p.pause(st.duration(last))
	case "stall":
		p.stallPush(st.duration(last))
	case "withdraw":
		p.happen(withdrawAsked{})
	case "campaign":
		p.happen(campaignAsked{})
	case "resign":
		e := resignAsked{}
		if len(f) > 2 {
			e.Successor = st.node(f[2]).String()
		}
		p.happen(e)
	case "ask":
		st.reg.plain(p.node, Message{Kind: KindResign, Node: p.node.String(), Term: p.state.decided})
	default:
		st.t.Fatalf("what is %q?", f[0])
	}
}

func (st *story) script(name, kind string, args []string) {
	term, err := strconv.ParseUint(args[0], 10, 64)
	require.NoError(st.t, err)
	m := Message{Node: st.node(name).String(), Term: term, Priority: int64(name[0])}
	m.Kind = map[string]Kind{"claim": KindClaim, "heartbeat": KindHeartbeat, "election": KindCandidacy}[kind]
	if len(args) > 1 {
		m.Stamp, m.Clock = args[1], clockOf(args[1])
	}
	st.reg.plain(st.nodes[name], m)
}
