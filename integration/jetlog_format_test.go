package integration

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/jetlog"
)

var makeStream = flag.Bool("make-stream", false, "make registry/jetlog/testdata/stream-v0.1, once and for all")

// recordedStream has the two streams of a log as the released build wrote them,
// message by message, and what that log held.
const recordedStream = "../registry/jetlog/testdata/stream-v0.1"

// recordedName is the stream's, and in its subjects.
const recordedName = "RECORDED"

// recorded is one message of a stream.
type recorded struct {
	Seq     uint64      `json:"seq"`
	Subject string      `json:"subject"`
	Header  nats.Header `json:"header,omitempty"`
	Data    []byte      `json:"data"`
}

// The kinds of messages, which stand in their fifth byte. They are given again
// here since they never change.
var recordedKinds = map[string]byte{"begin": 1, "batch": 2, "purge": 3, "expire": 4, "retain": 5, "saved": 6, "part": 7, "snapshot": 8}

// The streams that a released build wrote are kept as they were. What its log
// held comes out of them for ever: from the newest snapshot, and from the
// beginning where nothing was dropped yet.
func TestRecordedStreamIsRead(t *testing.T) {
	if *makeStream {
		recordStream(t)
	}
	want, err := os.ReadFile(filepath.Join(recordedStream, "holds.ndjson"))
	require.NoError(t, err)
	log, state := readStream(t, "log"), readStream(t, "state")
	kinds := map[byte]int{}
	for _, m := range slices.Concat(log, state) {
		if len(m.Data) > 4 && string(m.Data[1:4]) == "pgl" {
			kinds[m.Data[4]]++
		}
	}
	for name, k := range recordedKinds {
		require.NotZero(t, kinds[k], "no message of kind %s", name)
	}
	for name, keep := range map[string]func(recorded) bool{
		"from its snapshot":  func(recorded) bool { return true },
		"from its beginning": func(m recorded) bool { return isSecret(m.Subject) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 1)
			replay(t, c, "log", func(recorded) bool { return true })
			replay(t, c, "state", keep)
			l := openLog(t, c, jetlog.Options{Stream: recordedName, Retention: recordedKeep})
			require.Equal(t, string(want), holds(t, l))

			// It goes on from there, also under a registry.
			s := serveLog(t, l, nil)
			head, _ := l.Head()
			ack, err := dial(t, "later", s.addr).PublishTo(t.Context(), "jobs.a", []byte("later"))
			require.NoError(t, err)
			require.Equal(t, head+1, ack.Seq)
		})
	}
}

func isSecret(subject string) bool {
	return len(subject) > len(recordedName) && bytes.HasPrefix([]byte(subject), []byte(recordedName+"_STATE.secret."))
}

func readStream(t *testing.T, name string) (list []recorded) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(recordedStream, name+".ndjson"))
	require.NoError(t, err)
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var m recorded
		require.NoError(t, json.Unmarshal(lines.Bytes(), &m))
		list = append(list, m)
	}
	require.NoError(t, lines.Err())
	require.NotEmpty(t, list)
	return list
}

// replay makes a stream of the messages that were recorded, at the places that
// they had.
func replay(t *testing.T, c *cluster, name string, keep func(recorded) bool) {
	t.Helper()
	js := jetStream(t, c)
	var conf jetstream.StreamConfig
	text, err := os.ReadFile(filepath.Join(recordedStream, name+".json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &conf))
	s, err := js.CreateStream(t.Context(), conf)
	require.NoError(t, err)
	last := uint64(0)
	put := func(m recorded) {
		ack, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data})
		require.NoError(t, err)
		require.Equal(t, m.Seq, ack.Sequence)
		last = m.Seq
	}
	for _, m := range readStream(t, name) {
		for last+1 < m.Seq { // was dropped before it was recorded
			put(recorded{Seq: last + 1, Subject: conf.Name + ".dropped"})
			require.NoError(t, s.DeleteMsg(t.Context(), last))
		}
		put(m)
		if !keep(m) {
			require.NoError(t, s.DeleteMsg(t.Context(), m.Seq))
		}
	}
}

func jetStream(t testing.TB, c *cluster) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(c.url())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	return js
}

// holds is all that a log holds, as lines of JSON.
func holds(t *testing.T, l *jetlog.Log) string {
	t.Helper()
	var lines bytes.Buffer
	e := json.NewEncoder(&lines)
	say := func(kind string, v any) { require.NoError(t, e.Encode(map[string]any{kind: v})) }
	head, at := l.Head()
	say("log", []any{l.Epoch(), head, at, l.Stats()})
	key, err := l.Key(t.Context())
	require.NoError(t, err)
	tickets, err := l.Secret(t.Context(), "tickets", 32)
	require.NoError(t, err)
	say("secrets", [][]byte{key.Seed(), tickets})

	var fences []registry.FenceEntry
	nodes := map[protocol.NodeID]bool{}
	require.NoError(t, l.Load(registry.State{
		Fence: func(f registry.FenceEntry) error { fences = append(fences, f); return nil },
		Entry: func(e registry.Entry) error {
			say("row", []any{e.Table, hex.EncodeToString([]byte(e.Key)), e.Value})
			return nil
		},
		Key: func(k registry.KeyEntry) error {
			nodes[k.Sender] = true
			say("key", []any{k.Sender, k.Key, k.Seq, k.Time, k.Digest[:]})
			return nil
		},
		Floor: func(s protocol.Seq) error { say("floor", s); return nil },
	}))
	slices.SortFunc(fences, func(a, b registry.FenceEntry) int { return cmp.Compare(a.Topic, b.Topic) })
	say("fences", fences)
	topics, err := l.Topics("", 1000)
	require.NoError(t, err)
	say("topics", topics)
	read := func(sel registry.Selection) {
		page := registry.Page{}
		require.NoError(t, l.Read(&sel, 0, head, &page))
		say("evicted", page.Evicted)
		for _, r := range page.Records {
			say("record", []any{r.Seq, r.Time, r.Topic, string(r.Payload[:min(40, len(r.Payload))]), r.Frame(), r.Key, r.Slot, r.Digest[:], r.Epoch})
		}
	}
	read(registry.Selection{Pattern: "*"})
	for _, tp := range topics {
		read(registry.Selection{Topics: map[string]struct{}{tp.Topic: {}}})
	}
	for id := range sorted(nodes) {
		read(registry.Selection{Direct: id})
	}
	return lines.String()
}

func sorted(set map[protocol.NodeID]bool) func(func(protocol.NodeID) bool) {
	return func(yield func(protocol.NodeID) bool) {
		var list []protocol.NodeID
		for id := range set {
			list = append(list, id)
		}
		slices.Sort(list)
		for _, id := range list {
			if !yield(id) {
				return
			}
		}
	}
}

var recordedKeep = registry.Retention{Messages: 6, Age: 24 * time.Hour, Versions: 5, TopicBytes: 1 << 20, TotalBytes: 1 << 21}

// recordStream writes the streams of a log that has been through everything:
// twice the same, with a snapshot between.
func recordStream(t *testing.T) {
	c := &cluster{options: []*server.Options{{
		ServerName: "n0", Host: "127.0.0.1", Port: freePorts(t, 1)[0], JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
		MaxPayload: 4096, // so that batches are fragments
	}}, servers: make([]*server.Server, 1)}
	t.Cleanup(c.stop)
	c.start(t, 0)
	o := jetlog.Options{Stream: recordedName, Retention: recordedKeep, SnapshotBytes: 1 << 40}
	l := openLog(t, c, o)
	_, err := l.Secret(t.Context(), "tickets", 32)
	require.NoError(t, err)
	live(t, l, 1)

	// A registry that makes a snapshot now.
	o.SnapshotBytes = 1
	short := openLog(t, c, o)
	w := &writer{t: t, log: short, id: 77, n: 1 << 32}
	require.NoError(t, w.append(1))
	js := jetStream(t, c)
	require.Eventually(t, func() bool {
		s, err := js.Stream(t.Context(), recordedName)
		require.NoError(t, err)
		m, err := s.GetMsg(t.Context(), s.CachedInfo().State.LastSeq)
		require.NoError(t, err)
		return m.Data[4] == recordedKinds["saved"]
	}, time.Minute, 10*time.Millisecond)
	require.NoError(t, short.Close())

	require.Eventually(t, func() bool {
		require.NoError(t, l.Take(func(*registry.Batch) error { return nil }))
		head, _ := l.Head()
		return head >= w.head()
	}, time.Minute, 10*time.Millisecond)
	live(t, l, 2)
	dump(t, js, "log", recordedName)
	dump(t, js, "state", recordedName+"_STATE")
	require.NoError(t, os.WriteFile(filepath.Join(recordedStream, "holds.ndjson"), []byte(holds(t, l)), 0o600))
}

func (w *writer) head() protocol.Seq {
	head, _ := w.log.Head()
	return head
}

// live makes all kinds of entries, through a registry and its clients and, of
// what those do only after days, by itself.
func live(t *testing.T, l *jetlog.Log, round int) {
	t.Helper()
	ctx := t.Context()
	s := serveLog(t, l, nil)
	a, b := dial(t, "a", s.addr), dial(t, "b", s.addr)
	put := func(p client.Publication) client.Ack {
		ack, err := a.Publish(ctx, p).Wait(ctx)
		require.NoError(t, err)
		return ack
	}
	for i := range 10 {
		put(client.Publication{Topic: "jobs.a", Payload: fmt.Append(nil, round, i), Key: fmt.Append(nil, "key ", round, i)})
		put(client.Publication{Topic: "beats", Slot: fmt.Sprint("slot ", i%3), Payload: fmt.Append(nil, i), Urgent: true})
		_, err := b.Send(ctx, a.Self().Node, fmt.Append(nil, "direct ", round, i))
		require.NoError(t, err)
	}
	put(client.Publication{Topic: "jobs.empty"})
	put(client.Publication{Topic: "relayed", Origin: b.Self().Node, Payload: []byte("{}"), Join: true})
	put(client.Publication{Topic: "large", Payload: bytes.Repeat([]byte("fragment "), 1500)})

	epoch := l.Epoch().ID
	f, err := a.Fence(ctx, "election:g")
	require.NoError(t, err)
	term := f.Fence.K + uint64(7*round)
	put(client.Publication{Topic: "election:g", Conditions: []protocol.Condition{{Topic: "election:g", Epoch: epoch, Term: term, HasExpect: true, Expect: f.Fence.S, Raise: term}}})
	put(client.Publication{Topic: "config:s", Payload: []byte(`{"version":1}`), Conditions: []protocol.Condition{
		{Topic: "config:s", Epoch: epoch, Term: uint64(round), Raise: uint64(round), HasExpect: true, Expect: fenceOf(t, a, "config:s").S},
		{Topic: "election:g", Epoch: epoch, Term: term},
	}})
	_, err = a.SetFence(ctx, "set", epoch, uint64(round*1000))
	require.NoError(t, err)

	require.NoError(t, b.Join(ctx, "jobs.a", "beats", fmt.Sprint("joined ", round)))
	require.NoError(t, b.Leave(ctx, "beats"))
	require.NoError(t, a.ClearInbox(ctx, protocol.Seq(10*round)))
	_, token, err := a.CreateToken(ctx, client.TokenOptions{Uses: round, Lifetime: time.Hour, Labels: []string{"worker"}, Note: "note"})
	require.NoError(t, err)
	if round == 2 {
		_, err = a.RevokeToken(ctx, token.ID)
		require.NoError(t, err)
	}
	var key protocol.KeyHash
	key[0] = byte(round)
	revoked := protocol.StandingRevoked
	_, err = a.SetKey(ctx, key, client.KeyChange{Standing: &revoked, Add: []string{"bad", "old"}})
	require.NoError(t, err)
	require.NoError(t, a.PurgeTopic(ctx, "jobs.a", put(client.Publication{Topic: "jobs.a"}).Seq-1))
	put(client.Publication{Topic: "jobs.a", Payload: []byte("last")})
	require.NoError(t, a.Close())
	require.NoError(t, b.Close())
	shut, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	require.NoError(t, s.reg.Shutdown(shut))

	head, at := l.Head()
	require.NoError(t, l.Append(&registry.Batch{
		KeyFloor: head - 12,
		Entries:  []registry.Entry{{Table: "odd", Key: "\xff\x00", Value: []byte{}}, {Table: "odd", Key: fmt.Sprint(round), Value: []byte("x")}, {Table: "odd", Key: fmt.Sprint(round - 1)}},
		Claims:   []registry.Claim{{Key: "somebody", Instance: protocol.Instance{9}}},
	}))
	require.NoError(t, l.Expire(at+1))
}

func fenceOf(t *testing.T, c *client.Client, topic string) protocol.Fence {
	t.Helper()
	f, err := c.Fence(t.Context(), topic)
	require.NoError(t, err)
	return f.Fence
}

// dump writes what a stream is and has.
func dump(t *testing.T, js jetstream.JetStream, file, name string) {
	t.Helper()
	s, err := js.Stream(t.Context(), name)
	require.NoError(t, err)
	info := s.CachedInfo()
	require.NoError(t, os.MkdirAll(recordedStream, 0o755))
	conf, err := json.MarshalIndent(info.Config, "", "  ")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(recordedStream, file+".json"), append(conf, '\n'), 0o600))
	var lines bytes.Buffer
	e := json.NewEncoder(&lines)
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
		m, err := s.GetMsg(t.Context(), seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		require.NoError(t, err)
		require.NoError(t, e.Encode(recorded{m.Sequence, m.Subject, m.Header, m.Data}))
	}
	require.NoError(t, os.WriteFile(filepath.Join(recordedStream, file+".ndjson"), lines.Bytes(), 0o600))
}
