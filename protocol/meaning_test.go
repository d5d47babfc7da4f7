package protocol_test

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"
)

const (
	epoch = protocol.EpochID(0x1f3a5c7e9b2d4f60)
	born  = 1767225600
	now   = protocol.Time(1767225600_123456789)
	node  = protocol.NodeID(1<<31 + 12345678)
	other = protocol.NodeID(1<<31 + 87654321)
	term  = 1767225601
)

var key, _ = hex.DecodeString("5f1d6c0e8a3b47b2912c44d07e61a9f3" + "0000000000000017")

func upTo(from, to byte) (b []byte) {
	for ; from < to; from++ {
		b = append(b, from)
	}
	return b
}

// meanings are what some vectors say, as Go values.
var meanings = map[string]protocol.Frame{
	"hello": &protocol.Hello{
		MinVersion: 1, MaxVersion: 2, Features: 5, Instance: protocol.Instance(key[:16]),
		Name: "agent-7", Tags: []string{"gpu", "eu-west"}, Token: []byte("tok\x00en"),
	},
	"welcome": &protocol.Welcome{
		Version: 1, Features: 4, Epoch: protocol.Epoch{ID: epoch, Born: born}, Node: node, Head: 41, Now: now,
		Limits:   protocol.Limits{Payload: 1 << 20, InFlight: 1024, Subscriptions: 128, Page: 256 << 10},
		Software: "pilotgo 1.2.3",
	},
	"drain": &protocol.Drain{RetryAfter: 1500 * time.Millisecond, Reason: "upgrade"},
	"fail":  &protocol.Fail{ID: 9, Code: protocol.ErrLimit, RetryAfter: 2 * time.Second, Detail: "256 subscriptions"},
	"done":  &protocol.Done{ID: 300},
	"successor": &protocol.Successor{Succession: protocol.Succession{
		Old: upTo(0, 32), New: upTo(32, 64), Signature: upTo(64, 128),
	}},
	"get-fence":   &protocol.GetFence{ID: 3, Topic: "election:workers"},
	"fence-state": &protocol.FenceState{ID: 3, Topic: "election:workers", Epoch: epoch, K: term, S: 37},
	"set-fence":   &protocol.SetFence{ID: 4, Topic: "election:workers", Epoch: epoch, K: 5},
	"join":        &protocol.Join{ID: 5, Topics: []string{"config:fleet", "config:status:fleet"}, Leave: true},
	"get-joined":  &protocol.GetJoined{ID: 6, After: "config:fleet", Limit: 50},
	"joined-page": &protocol.JoinedPage{ID: 6, Next: "jobs.created", Topics: []string{"election:workers", "jobs.created"}},
	"get-inbox":   &protocol.GetInbox{ID: 7, After: 100, Limit: 500, Topic: "jobs.created", All: true},
	"inbox-page": &protocol.InboxPage{ID: 7, Next: 131, Truncated: true, Head: 140, Messages: []protocol.Message{
		{
			Seq: 130, Time: now, Sender: node, Topic: "election:workers", Payload: []byte(`{"type":"leader"}`),
			Fences: []protocol.Mark{{Topic: "election:workers", Term: term}},
		},
		{Seq: 131, Time: now + 1, Sender: other, Origin: 77, To: node, Payload: []byte{0}, Key: key},
	}},
	"ping":        &protocol.Ping{ID: 8, Pad: []byte{0, 0}},
	"clear-inbox": &protocol.ClearInbox{ID: 8, UpTo: 131},
	"get-info":    &protocol.GetInfo{ID: 9},
	"info-state": &protocol.InfoState{
		ID: 9, Epoch: epoch, Born: born, Head: 140, Now: now, Started: now - 1000e9,
		Nodes: 11, Online: 12, Sessions: 13, Subscriptions: 14, Topics: 15, Messages: 16, Bytes: 1700,
		Published: 180000, Software: "pilotgo 1.2.3",
	},
	"get-nodes": &protocol.GetNodes{ID: 10, After: node, Limit: 20, Topic: "config:fleet"},
	"nodes-page": &protocol.NodesPage{ID: 10, Next: other, Nodes: []protocol.Node{
		{ID: node, Key: upTo(0, 32), Name: "agent-7", Tags: []string{"gpu"}, Online: 2, LastSeen: now},
		{ID: other},
	}},
	"get-topics": &protocol.GetTopics{ID: 11, After: "jobs.a", Limit: 10, Pattern: "jobs.*"},
	"topics-page": &protocol.TopicsPage{ID: 11, Topics: []protocol.Topic{
		{Name: "jobs.created", Messages: 3, Bytes: 300, Last: 139},
		{Name: "jobs.done", Messages: 70000, Bytes: 8000000, Last: 140, Fence: protocol.Fence{K: 2, S: 77}},
	}},
	"open-lane": &protocol.OpenLane{Lane: protocol.LaneUrgent},
	"publish": &protocol.Publish{
		N: 1234, Flags: protocol.FlagResend | protocol.FlagJoin, Key: key, Epoch: epoch, Head: 99,
		Topic: "jobs.created", Payload: []byte(`{"job":1}`), Slot: []byte("status"), Origin: 77,
	},
	"publish-direct": &protocol.Publish{N: 7, Key: key, Epoch: epoch, Head: 99, Payload: []byte("hi"), To: other},
	"publish-fenced": &protocol.Publish{
		N: 5, Key: key, Epoch: epoch, Head: 99, Topic: "election:workers", Payload: []byte(`{"type":"leader"}`),
		Conditions: []protocol.Condition{
			{Topic: "election:workers", Epoch: epoch, Term: term, HasExpect: true, Expect: 37, Raise: term},
		},
	},
	"publish-two-conditions": &protocol.Publish{
		N: 6, Key: key, Epoch: epoch, Head: 99, Topic: "config:fleet", Payload: []byte(`{"type":"config_update"}`),
		Conditions: []protocol.Condition{
			{Topic: "config:fleet", Epoch: epoch, Term: 2, HasExpect: true, Raise: 2},
			{Topic: "election:workers", Epoch: epoch, Term: term},
		},
	},
	"acks": &protocol.Acks{List: []protocol.Ack{
		{N: 2, Seq: 42, Time: now},
		{N: 1, Seq: 41, Time: now - 1},
		{N: 300, Seq: 17, Time: now - 1e9, Duplicate: true},
	}},
	"refuse": &protocol.Refuse{
		N: 1234, Code: protocol.ErrStaleTerm, RetryAfter: 250 * time.Millisecond, Topic: "election:workers",
		Epoch: epoch, Fence: protocol.Fence{K: 1767225700, S: 40}, Detail: "have a newer leader",
	},
	"subscribe": &protocol.Subscribe{
		Pattern: "jobs.*", Start: protocol.StartSince, Since: now, After: 41, Epoch: epoch,
	},
	"subscribe-inbox": &protocol.Subscribe{Source: protocol.SourceInbox},
	"subscribed":      &protocol.Subscribed{Epoch: protocol.Epoch{ID: epoch, Born: born}, Position: 41, Narrowed: true},
	"deliver": &protocol.Deliver{Message: protocol.Message{
		Seq: 42, Time: now, Sender: node, Origin: 77, Topic: "config:fleet", Payload: []byte(`{"version":2}`),
		Fences: []protocol.Mark{{Topic: "config:fleet", Term: 2}, {Topic: "election:workers", Term: term}},
	}},
	"deliver-own": &protocol.Deliver{Message: protocol.Message{
		Seq: 43, Time: now, Sender: node, To: node, Payload: []byte("note"), Key: key,
	}},
	"caught-up": &protocol.CaughtUp{Seq: 42, Fence: protocol.Fence{K: 5, S: 40}},
	"gap":       &protocol.Gap{From: 43, To: 1000},
	"create-token": &protocol.CreateToken{
		ID: 12, Token: tokenID, Hash: protocol.TokenHash(upTo(0, 32)), Uses: 5, Lifetime: 24 * time.Hour,
		Labels: []string{"ops", "eu-west"}, Note: "for the night shift",
	},
	"get-tokens": &protocol.GetTokens{ID: 13, After: tokenID[:], Limit: 50},
	"tokens-page": &protocol.TokensPage{ID: 13, Next: tokenID[:], Tokens: []protocol.TokenEntry{
		{ID: tokenID, Created: now, Expires: now + 86400e9, Uses: 5, Used: 2, Labels: []string{"ops", "eu-west"}, Note: "for the night shift"},
		{ID: protocol.TokenID{1}, Created: now, Revoked: true},
	}},
	"revoke-token": &protocol.RevokeToken{ID: 14, Token: tokenID},
	"set-key": &protocol.SetKey{
		ID: 15, Key: protocol.KeyHash(upTo(0, 32)), Standing: protocol.StandingRevoked, Add: []string{"stolen"}, Drop: []string{"ops"},
	},
	"get-keys": &protocol.GetKeys{ID: 16, After: upTo(0, 32), Limit: 50},
	"keys-page": &protocol.KeysPage{ID: 16, Next: upTo(32, 64), Keys: []protocol.KeyEntry{
		{Key: protocol.KeyHash(upTo(0, 32)), Standing: protocol.StandingAdmitted, Since: now, Labels: []string{"eu-west", "ops"}, Token: tokenID[:]},
		{Key: protocol.KeyHash(upTo(32, 64)), Labels: []string{"lab"}},
	}},
	"forget-node":  &protocol.ForgetNode{ID: 17, Node: node},
	"purge-topic":  &protocol.PurgeTopic{ID: 18, Topic: "jobs.created", UpTo: 131},
	"delete-topic": &protocol.DeleteTopic{ID: 19, Topic: "jobs.created"},
}

var tokenID = protocol.TokenID{0xa1, 0xb2, 0xc3, 0xd4, 0xe5, 0xf6, 7, 8}

func TestVectorsMeanWhatTheySay(t *testing.T) {
	seen := 0
	for _, v := range frameVectors(t) {
		want, ok := meanings[v.name]
		if !ok {
			continue
		}
		seen++
		got, err := protocol.Parse(v.bytes)
		require.NoError(t, err, v.name)
		require.Equal(t, want, got, v.name)
		require.Equal(t, v.bytes, want.Append(nil), v.name)
	}
	require.Equal(t, len(meanings), seen)
}

// The race detector sees whether Append writes to the frame.
func TestAppendOnlyReads(t *testing.T) {
	for _, f := range meanings {
		var two sync.WaitGroup
		for range 2 {
			two.Go(func() { f.Append(nil) })
		}
		two.Wait()
	}
}

// flatten lists the scalar values of a frame in order, as the library's generic
// decoder reads them: numbers as uint64, or int64 below 0. It must only see what
// is known to be harmless.
func flatten(t testing.TB, b []byte) []any {
	t.Helper()
	var list []any
	d := msgpack.NewDecoder(bytes.NewReader(b))
	v, err := d.DecodeInterface()
	require.NoError(t, err)
	_, err = d.DecodeInterface()
	require.Error(t, err, "one value and no more")
	var walk func(v any)
	walk = func(v any) {
		switch v := reflect.ValueOf(v); v.Kind() {
		case reflect.Slice:
			if b, ok := v.Interface().([]byte); ok {
				list = append(list, string(b))
				return
			}
			for i := range v.Len() {
				walk(v.Index(i).Interface())
			}
		case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
			if v.Int() < 0 {
				list = append(list, v.Int())
			} else {
				list = append(list, uint64(v.Int()))
			}
		case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
			list = append(list, v.Uint())
		default:
			list = append(list, v.Interface())
		}
	}
	walk(v)
	return list
}

// flatFrame lists the same from the fields of a frame, which stand in the order
// of the wire.
func flatFrame(t testing.TB, f protocol.Frame) []any {
	t.Helper()
	list := []any{uint64(f.Type())}
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		switch v.Interface().(type) {
		case protocol.Extra:
			raw := []byte(v.FieldByName("raw").String())
			n := v.FieldByName("n").Int()
			for range n {
				size := valueSize(t, raw)
				list = append(list, flatten(t, raw[:size])...)
				raw = raw[size:]
			}
			require.Empty(t, raw)
			return
		case time.Duration:
			list = append(list, uint64(v.Int()/int64(time.Millisecond)))
			return
		case protocol.Instance, protocol.TokenID, protocol.TokenHash, protocol.KeyHash:
			list = append(list, string(v.Slice(0, v.Len()).Bytes()))
			return
		}
		switch v.Kind() {
		case reflect.Struct:
			for _, field := range v.Fields() {
				walk(field)
			}
		case reflect.Slice:
			if v.Type().Elem().Kind() == reflect.Uint8 {
				list = append(list, string(v.Bytes()))
				return
			}
			for i := range v.Len() {
				walk(v.Index(i))
			}
		case reflect.Bool:
			n := uint64(0)
			if v.Bool() {
				n = 1
			}
			list = append(list, n)
		case reflect.String:
			list = append(list, v.String())
		default:
			list = append(list, v.Uint())
		}
	}
	walk(reflect.ValueOf(f).Elem())
	return list
}

// valueSize is how many bytes the first value of b takes.
func valueSize(t testing.TB, b []byte) int {
	t.Helper()
	r := bytes.NewReader(b)
	require.NoError(t, msgpack.NewDecoder(r).Skip())
	return len(b) - r.Len()
}

func extraOf(f protocol.Frame) protocol.Extra {
	return reflect.ValueOf(f).Elem().FieldByName("Extra").Interface().(protocol.Extra)
}
