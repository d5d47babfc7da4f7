package registry_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/memlog"
)

var record = flag.String("record", "", "record the sessions of this version, such as v0.1, which has none yet")

// sessionStories are what clients of every version do.
var sessionStories = []struct {
	name string
	run  func(*testing.T, *client.Client)
}{
	{"publish", publishStory},
	{"subscribe", subscribeStory},
	{"fences", fencesStory},
	{"inbox", inboxStory},
	{"questions", questionsStory},
}

// A registry answers clients of earlier versions as their registry did. The
// sessions were recorded with the versions that their folders name, and are
// never recorded again.
func TestSessionsOfEarlierVersionsAreAnsweredTheSame(t *testing.T) {
	if *record != "" {
		recordSessions(t, filepath.Join("testdata", "sessions", *record))
	}
	files, err := filepath.Glob("testdata/sessions/*/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.ToSlash(file[len("testdata/sessions/"):]), ".txt"), func(t *testing.T) {
			lines := readSession(t, file)
			synctest.Test(t, func(t *testing.T) { replay(t, lines) })
		})
	}
}

// theirEpoch is that of the logs in all recordings.
var theirEpoch = protocol.Epoch{ID: 0x1122334455667788, Born: 946684800}

// startReplayed serves a log in which time stands still, as nothing else differs
// between a recording and its replay.
func startReplayed(t *testing.T) *world {
	now := time.Now()
	return start(t, registry.Options{
		Log: memlog.New(memlog.Options{Epoch: theirEpoch}), Software: "recorded", Now: func() time.Time { return now },
	})
}

// frameLine is one frame of a recording: of the client (">") or for it ("<"), on a
// channel that the client opened, counted from 1.
type frameLine struct {
	out     bool
	channel int
	body    []byte
}

func readSession(t *testing.T, file string) (lines []frameLine) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
		if s.Text() == "" || strings.HasPrefix(s.Text(), "#") {
			continue
		}
		words := strings.Fields(s.Text())
		require.GreaterOrEqual(t, len(words), 3, s.Text())
		n, err := strconv.Atoi(words[1])
		require.NoError(t, err)
		body, err := hex.DecodeString(words[2])
		require.NoError(t, err)
		lines = append(lines, frameLine{words[0] == ">", n, body})
	}
	require.NotEmpty(t, lines)
	return lines
}

// replay says what the client said and compares the answers.
func replay(t *testing.T, lines []frameLine) {
	w := startReplayed(t)
	defer w.close()
	p := w.dial("client")
	defer p.close()
	channels := map[int]*channel{}
	for i, line := range lines {
		ch := channels[line.channel]
		if ch == nil {
			opened, err := p.s.Open(t.Context())
			require.NoError(t, err)
			ch = &channel{t, opened}
			channels[line.channel] = ch
		}
		if line.out {
			require.NoError(t, ch.Send(raw(line.body)))
			continue
		}
		require.NoError(t, ch.SetReadDeadline(time.Now().Add(time.Minute)))
		got, err := ch.Next()
		require.NoError(t, err, "line %d: nothing came instead of %x", i, line.body)
		sameFrame(t, line.body, got)
	}
}

// sameFrame compares frames. What a registry tells about itself may change; all
// else may not.
func sameFrame(t *testing.T, recorded, got []byte) {
	t.Helper()
	want, err := protocol.Parse(recorded)
	require.NoError(t, err)
	now, err := protocol.Parse(got)
	require.NoError(t, err)
	switch want.(type) {
	case *protocol.Welcome, *protocol.InfoState:
		require.IsType(t, want, now)
	default:
		assert.Equal(t, want, now)
	}
}

func recordSessions(t *testing.T, folder string) {
	t.Helper()
	require.NoError(t, os.Mkdir(folder, 0o755), "a version is recorded once")
	for _, story := range sessionStories {
		var tape tape
		synctest.Test(t, func(t *testing.T) { tape.record(t, story.run) })
		text := fmt.Sprintf("# A client of %s: %s.\n", filepath.Base(folder), story.name)
		require.NoError(t, os.WriteFile(filepath.Join(folder, story.name+".txt"), append([]byte(text), tape.text...), 0o644))
	}
}

// tape stands between a client and a registry and writes down what they say.
type tape struct {
	mu   sync.Mutex
	text []byte
}

func (tp *tape) note(way string, channel int, body []byte) {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	f, err := protocol.Parse(body)
	if err != nil {
		panic(err)
	}
	tp.text = fmt.Appendf(tp.text, "%s %d %x %T\n", way, channel, body, f)
}

func (tp *tape) record(t *testing.T, story func(*testing.T, *client.Client)) {
	w := startReplayed(t)
	defer w.close()
	// The middle has the registry's key for the client, and the client's for the
	// registry.
	pc := w.net.Listen("middle")
	defer pc.Close()
	l, err := link.Listen(pc, link.Config{Identity: link.Identity{Key: key("registry")}, Limits: link.Limits{Frame: 32 << 20}})
	require.NoError(t, err)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer l.Close()
	server := w.dial("client")
	defer server.close()
	wg.Go(func() {
		s, err := l.Accept(context.Background())
		if err != nil {
			return
		}
		tp.join(&wg, s, server.s)
	})

	own := w.net.Listen("recorded")
	defer own.Close()
	c, err := client.Dial(t.Context(), w.net.Addr("middle"), client.Options{
		Key: key("client"), PacketConn: own, NoState: true, Name: "agent", Tags: []string{"gpu"},
		RegistryKey: link.Fingerprint(link.Identity{Key: key("registry")}.Public()),
	})
	require.NoError(t, err)
	story(t, c)
	synctest.Wait()
	require.NoError(t, c.Close())
}

// join carries the channels of one session over to another.
func (tp *tape) join(wg *sync.WaitGroup, from, to *link.Session) {
	for n := 1; ; n++ {
		a, err := from.Accept(context.Background())
		if err != nil {
			return
		}
		b, err := to.Open(context.Background())
		if err != nil {
			return
		}
		wg.Go(func() { tp.carry(">", n, a, b) })
		wg.Go(func() { tp.carry("<", n, b, a) })
	}
}

func (tp *tape) carry(way string, n int, from, to *link.Channel) {
	for {
		body, err := from.Next()
		if err != nil {
			to.CloseSend()
			return
		}
		tp.note(way, n, body)
		if to.Send(raw(body)) != nil {
			return
		}
	}
}

func publishStory(t *testing.T, c *client.Client) {
	for i := range 3 {
		_, err := c.PublishTo(t.Context(), "jobs.created", fmt.Appendf(nil, `{"id":%d}`, i))
		require.NoError(t, err)
	}
	first := c.Publish(t.Context(), client.Publication{Topic: "jobs.created", Payload: []byte("x"), Key: []byte("once")})
	_, err := first.Wait(t.Context())
	require.NoError(t, err)
	again, err := c.Publish(t.Context(), client.Publication{Topic: "jobs.created", Payload: []byte("x"), Key: []byte("once")}).Wait(t.Context())
	require.NoError(t, err)
	require.True(t, again.Duplicate)
	_, err = c.Publish(t.Context(), client.Publication{Topic: "other", Payload: []byte("y"), Key: []byte("once")}).Wait(t.Context())
	require.ErrorIs(t, err, protocol.ErrKeyReused)
	_, err = c.Publish(t.Context(), client.Publication{Topic: "state", Slot: "mine", Payload: []byte("1"), Urgent: true, Join: true}).Wait(t.Context())
	require.NoError(t, err)
	_, err = c.Send(t.Context(), nodeID("client"), []byte("to myself"))
	require.NoError(t, err)
}

func subscribeStory(t *testing.T, c *client.Client) {
	for i := range 5 {
		_, err := c.PublishTo(t.Context(), fmt.Sprintf("jobs.%d", i%2), []byte{byte(i)})
		require.NoError(t, err)
	}
	for _, start := range []client.SubscribeOption{client.FromAll(), client.FromLast(), client.FromSeq(2), client.FromNew()} {
		sub, err := c.Subscribe(t.Context(), "jobs.*", start)
		require.NoError(t, err)
		for {
			item, err := sub.Next(t.Context())
			require.NoError(t, err)
			if item.Kind == client.ItemCaughtUp {
				break
			}
		}
		require.NoError(t, sub.Close())
		synctest.Wait()
	}
	_, err := c.Subscribe(t.Context(), "a*b")
	require.ErrorIs(t, err, protocol.ErrInvalidPattern)
}

func fencesStory(t *testing.T, c *client.Client) {
	f, err := c.Fence(t.Context(), "election:pool")
	require.NoError(t, err)
	publish := func(condition protocol.Condition) error {
		condition.Topic, condition.Epoch = "election:pool", f.Epoch.ID
		_, err := c.Publish(t.Context(), client.Publication{
			Topic: "election:pool", Payload: []byte("{}"), Conditions: []protocol.Condition{condition},
		}).Wait(t.Context())
		return err
	}
	require.NoError(t, publish(protocol.Condition{Term: 5, HasExpect: true, Raise: 5}))
	require.NoError(t, publish(protocol.Condition{Term: 5}))
	require.ErrorIs(t, publish(protocol.Condition{Term: 4}), protocol.ErrStaleTerm)
	require.ErrorIs(t, publish(protocol.Condition{Term: 6, HasExpect: true, Expect: 1, Raise: 6}), protocol.ErrConflict)
	f.Epoch.ID++
	require.ErrorIs(t, publish(protocol.Condition{Term: 6}), protocol.ErrWrongEpoch)
	_, err = c.SetFence(t.Context(), "election:pool", theirEpoch.ID, 3)
	require.NoError(t, err)
}

func inboxStory(t *testing.T, c *client.Client) {
	require.NoError(t, c.Join(t.Context(), "jobs", "news"))
	for _, topic := range []string{"jobs", "else", "news"} {
		_, err := c.PublishTo(t.Context(), topic, []byte(topic))
		require.NoError(t, err)
	}
	list := func() (n int, head protocol.Seq) {
		for page, err := range c.Inbox(t.Context(), client.InboxOptions{}) {
			require.NoError(t, err)
			n, head = n+len(page.Messages), page.Head
		}
		return n, head
	}
	n, head := list()
	require.Equal(t, 2, n)
	require.NoError(t, c.ClearInbox(t.Context(), head))
	n, _ = list()
	require.Zero(t, n)
	for _, err := range c.Joined(t.Context()) {
		require.NoError(t, err)
	}
	require.NoError(t, c.Leave(t.Context(), "news"))
}

func questionsStory(t *testing.T, c *client.Client) {
	_, err := c.PublishTo(t.Context(), "a.b", []byte("1"))
	require.NoError(t, err)
	_, err = c.Info(t.Context())
	require.NoError(t, err)
	for _, err := range c.Nodes(t.Context(), client.NodesOptions{}) {
		require.NoError(t, err)
	}
	for _, err := range c.Topics(t.Context(), "a.*") {
		require.NoError(t, err)
	}
}
