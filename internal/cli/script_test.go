package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/election"
	"github.com/pilotgo/pilotgo/internal/extras"
	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/internal/stores"
	"github.com/pilotgo/pilotgo/internal/testenv"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/memlog"
	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	command := func(f func() int) func() {
		return func() {
			testenv.DieWithParent()
			profiles["flaky"] = patient
			os.Exit(f())
		}
	}
	small := command(func() int { return Main(extras.Set{}) })
	testscript.Main(m, map[string]func(){
		"pilotgo":  small,
		"pilotctl": small,

		"pilotgo-registry": command(func() int { return Main(stores.Extras()) }),

		"jq":    command(jqMain),
		"sleep": command(sleepMain),
		"date":  command(dateMain),
	})
}

// patient is the profile flaky in scripts: a leader outlasts a pause of its process by
// a busy machine, and a first election need not take 20 s.
var patient = election.Timing{
	Heartbeat: 200 * time.Millisecond, Lease: 2 * time.Second, Silence: 2200 * time.Millisecond,
	Jitter: 50 * time.Millisecond, Window: 150 * time.Millisecond, Rank: 100 * time.Millisecond,
	Stop: 500 * time.Millisecond, OneWay: 50 * time.Millisecond, Pause: time.Second,
}

func TestPatientTiming(t *testing.T) { require.NoError(t, patient.Validate()) }

// TestScripts runs testdata/script. Each script has a registry of its own inside
// this process, at $REGISTRY and under the names that recipes use for it, and the
// commands pilotgo, pilotctl (the same), jq, sleep (shortened, see sleepMain) and
// date (shifted, see dateMain).
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:   filepath.Join("testdata", "script"),
		Setup: setup,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"acks":     acksCmd,
			"clock":    clockCmd,
			"restart":  restartCmd,
			"json":     jsonCmd,
			"waitfile": waitFileCmd,
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

// server is the registry of one script.
type server struct {
	key    link.Identity
	access registry.AccessFunc
	ahead  atomic.Int64 // of the registry's clock, in nanoseconds
	hooks  registry.Hooks
	mute   atomic.Bool // publishes get no answer, nor do requests of operators
	silent atomic.Bool // nothing gets one, since there was such a request
	addr   string
	r      *registry.Registry
	log    *memlog.Log
}

func (s *server) start() error {
	s.log = memlog.New(memlog.Options{})
	r, err := registry.New(registry.Options{Log: s.log, Key: s.key.Key, Access: s.access, Now: s.now, Software: "test", Hooks: &s.hooks})
	if err != nil {
		return err
	}
	at, err := r.Listen(s.addr)
	if err != nil {
		return err
	}
	s.r, s.addr = r, at.String()
	return nil
}

func (s *server) now() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }

func (s *server) stop() {
	s.r.Close()
	s.log.Close()
}

// raceOptions spare each process the second that the race detector waits at its end.
const raceOptions = "atexit_sleep_ms=0"

type serverKey struct{}

func setup(e *testscript.Env) error {
	s := &server{key: link.NewIdentity(), addr: "127.0.0.1:0"}
	s.hooks.BeforeAck = func(protocol.NodeID, protocol.Ack) (time.Duration, bool) { return 0, s.mute.Load() }
	s.hooks.Before = func(op registry.Operation) error {
		if (op.Op == registry.OpSetFence || op.Op == registry.OpOperate) && s.mute.Load() {
			s.silent.Store(true)
		}
		return nil
	}
	s.hooks.Mute = func(protocol.NodeID) <-chan struct{} {
		if s.silent.Load() {
			return make(chan struct{}) // until the session ends
		}
		return nil
	}
	if err := s.start(); err != nil {
		return err
	}
	e.Defer(s.stop)
	e.Values[serverKey{}] = s
	e.Setenv(testenv.Parent())
	for k, v := range map[string]string{
		"REGISTRY":      s.addr,
		"PILOTGO_HOSTS": "registry-hostname=" + s.addr + ",registry.example.com=" + s.addr,
		"PILOT_HOME":    filepath.Join(e.WorkDir, "home"),
		"HOME":          filepath.Join(e.WorkDir, "user"),
		"GORACE":        raceOptions,
	} {
		e.Setenv(k, v)
	}
	return nil
}

func serverOf(ts *testscript.TestScript) *server { return ts.Value(serverKey{}).(*server) }

// acksCmd makes the registry lose its answers to publishes and to operators, or not:
// acks drop
func acksCmd(ts *testscript.TestScript, _ bool, args []string) {
	serverOf(ts).mute.Store(args[0] == "drop")
	serverOf(ts).silent.Store(false)
}

// clockCmd puts the registry's clock ahead: clock 30s
func clockCmd(ts *testscript.TestScript, _ bool, args []string) {
	d, err := time.ParseDuration(strings.Join(args, " "))
	ts.Check(err)
	serverOf(ts).ahead.Add(int64(d))
}

// restartCmd makes the registry lose its log, as a memory registry does when it is
// restarted: restart
func restartCmd(ts *testscript.TestScript, _ bool, _ []string) {
	s := serverOf(ts)
	s.stop()
	ts.Check(s.start())
}

// jsonCmd evaluates a jq program on stdout, stderr or a file, and compares what
// it prints: json stdout '.seq' 1
func jsonCmd(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: json file program want")
	}
	got, err := jqText(args[1], ts.ReadFile(args[0]))
	ts.Check(err)
	got = strings.ReplaceAll(got, "\n", " ") // of several values
	if (got == args[2]) == neg {
		ts.Fatalf("%s of %s is %q", args[1], args[0], got)
	}
}

// waitFileCmd waits until a file has this one line: waitfile path line
func waitFileCmd(ts *testscript.TestScript, _ bool, args []string) {
	path, want := ts.MkAbs(args[0]), args[1]
	last := ""
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); pause(10 * time.Millisecond) {
		b, _ := os.ReadFile(path)
		if last = strings.TrimSpace(string(b)); last == want {
			return
		}
	}
	ts.Fatalf("%s is %q", args[0], last)
}

func pause(d time.Duration) { <-time.After(d) }

// sleepMain is sleep for recipes: a hundredth of the time. With SLEEP_TOGETHER=DIR=N
// it lasts until N sleepers have come to the folder, which is what a recipe's
// long sleep is for: to let all others come as far as this one.
func sleepMain() int {
	seconds, err := strconv.ParseFloat(os.Args[1], 64)
	if err != nil {
		return 1
	}
	dir, count, together := strings.Cut(os.Getenv("SLEEP_TOGETHER"), "=")
	if !together {
		pause(time.Duration(seconds * float64(time.Second) / 100))
		return 0
	}
	n, err := strconv.Atoi(count)
	if err != nil || os.WriteFile(filepath.Join(dir, strconv.Itoa(os.Getpid())), nil, 0o600) != nil {
		return 1
	}
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); pause(5 * time.Millisecond) {
		if entries, err := os.ReadDir(dir); err == nil && len(entries) >= n {
			return 0
		}
	}
	return 1
}

// dateMain is date -u with the formats of the recipes, DATE_AHEAD seconds ahead.
func dateMain() int {
	now := time.Now().UTC()
	if ahead, err := strconv.Atoi(os.Getenv("DATE_AHEAD")); err == nil {
		now = now.Add(time.Duration(ahead) * time.Second)
	}
	switch format := os.Args[len(os.Args)-1]; format {
	case "+%s":
		fmt.Println(now.Unix())
	case "+%Y-%m-%dT%H:%M:%SZ":
		fmt.Println(now.Format(time.RFC3339))
	default:
		fmt.Fprintf(os.Stderr, "date: %s is for a real date\n", format)
		return 1
	}
	return 0
}
