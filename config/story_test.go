package config

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
)

var update = flag.Bool("update", false, "write the transcripts anew")

// Each file of testdata/stories tells a story: lines that begin with ">" say what
// happens, those below them what the agents did. Reports that say nothing new are
// left out.
//
//	> agent a [5]     an agent, which runs version 5
//	> publish 6       a version for all
//	> rollback 7 5    version 7 with the content of 5
//	> stage 8         a version of a rollout
//	> reach a 8       the rollout has come to a
//	> halt 8          it goes back everywhere
//	> complete 8      and is for all now
//	> again 8         another content with the same version
//	> forge 9         a version that passed no fence
//	> run 5s          time passes
//	> cut a 5s        a's link is down for so long
//	> kill a          a's process dies; start a begins another
//	> purge           all but the newest message leaves the log
//	> lose            the registry loses its log
//	> reject a 6      a's validator refuses version 6
//	> fail a 6 3      a cannot apply version 6, three times
//	> slow a 5s       a takes so long to apply
//	> pin a 4         somebody puts version 4 back on a's machine
//	> unpin a
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/stories/*.txt")
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
	t     *testing.T
	out   strings.Builder
	told  map[string]string
	names map[string]*simAgent
}

// retell runs the lines of a story and returns it as it is told now.
func retell(t *testing.T, text string) string {
	st := &story{sim: newSim(), t: t, told: map[string]string{}, names: map[string]*simAgent{}}
	st.note = st.line
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
	return st.out.String()
}

func (st *story) line(a *simAgent, text string) {
	if strings.HasPrefix(text, "tell ") {
		if st.told[a.name] == text {
			return
		}
		st.told[a.name] = text
	}
	fmt.Fprintf(&st.out, "%9.3f %s: %s\n", st.now.Seconds(), a.name, text)
}

func (st *story) number(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(st.t, err)
	return n
}

func (st *story) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	require.NoError(st.t, err)
	return d
}

func (st *story) obey(words []string) {
	args := append(words[1:], "", "", "")
	switch words[0] {
	case "run":
		st.run(st.duration(args[0]))
	case "purge":
		st.gone = len(st.log) - 1
	case "lose":
		st.lose()
	case "halt":
		for _, a := range st.agents {
			a.step(stageMoved{st.number(args[0]), false})
		}
	case "publish", "rollback", "stage", "complete", "again", "forge":
		st.write(words[0], st.number(args[0]))
	default:
		st.direct(words[0], args)
	}
}

func (st *story) write(what string, version uint64) {
	d, stamp := content(version, ""), version
	switch what {
	case "rollback":
		d.Rollback = true
	case "stage":
		d.Staged = true
	case "again":
		d = content(version, "again")
	case "forge":
		stamp = 0
	}
	st.publish(d, stamp)
}

// direct is for one agent.
func (st *story) direct(what string, args []string) {
	a := st.names[args[0]]
	if what == "agent" {
		a = st.agent(args[0])
		st.names[a.name] = a
		if args[1] != "" {
			v := st.number(args[1])
			a.disk = Applied{Version: v, Digest: DigestOf(nil), Highest: v}
		}
		what = "start"
	}
	require.NotNil(st.t, a, "no agent %q", args[0])
	switch what {
	case "start":
		a.start()
	case "kill":
		a.kill()
	case "cut":
		a.cut(st.duration(args[1]))
	case "reach":
		a.step(stageMoved{st.number(args[1]), true})
	case "slow":
		a.works[1] = st.duration(args[1])
	case "reject":
		version := st.number(args[1])
		a.judge = func(d ref) string {
			if d.Version == version {
				return "refused"
			}
			return ""
		}
	case "fail":
		version, left := st.number(args[1]), st.number(args[2])
		a.apply = func(d ref) string {
			if d.Version == version && left > 0 {
				left--
				return "disk full"
			}
			return ""
		}
	case "pin", "unpin":
		a.disk.Pinned = what == "pin"
		if what == "pin" {
			a.disk.Version = st.number(args[1])
		}
		a.step(currentFound{ref{Version: a.disk.Version, Digest: a.disk.Digest}, a.disk.Highest, a.disk.Pinned})
	default:
		require.Fail(st.t, "no such thing", what)
	}
}
