package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/require"
)

func testMessage(topic, payload string) *message {
	return &message{
		Message: &protocol.Message{
			Seq: 12, Time: protocol.TimeOf(time.Unix(1796043129, 5)), Sender: 1<<31 | 7, Topic: topic, Payload: []byte(payload),
		},
		epoch: 0xab, host: "h:9002", to: 1<<31 | 9,
	}
}

func decode(t *testing.T, b []byte) map[string]any {
	t.Helper()
	var got map[string]any
	require.NoError(t, json.Unmarshal(b, &got), string(b))
	return got
}

func TestMessageJSON(t *testing.T) {
	got := decode(t, testMessage("jobs", `{"type":"job", "n":1}`).appendJSON(nil))
	require.Equal(t, map[string]any{
		"id": "00000000000000ab-12", "topic": "jobs", "payload": map[string]any{"type": "job", "n": 1.0},
		"data": `{"type":"job", "n":1}`, "content": `{"type":"job", "n":1}`, "bytes": 21.0,
		"sender": float64(1<<31 | 7), "from": "0:0000.8000.0007", "to": "0:0000.8000.0009", "seq": 12.0,
		"received_at": "2026-11-30T12:52:09Z", "timestamp": "2026-11-30T12:52:09Z", "registry": "h:9002",
		"type": "job", "frame_type": "JSON", "n": 1.0,
	}, got)
}

func TestWhatIsNoObjectHasNoPayload(t *testing.T) {
	for data, kind := range map[string]string{"": kindText, "null": kindText, "\n": kindText, "[1]": kindText, "hi": kindText, "\xff\x00": kindBinary} {
		got := decode(t, testMessage("", data).appendJSON(nil))
		require.Nil(t, got["topic"])
		require.Contains(t, got, "payload")
		require.Nil(t, got["payload"], data)
		require.Equal(t, kind, got["type"], data)
		require.Equal(t, string([]rune(data)), got["data"], data)
	}
	got := decode(t, testMessage("", "\xff\x00").appendJSON(nil))
	require.Equal(t, "base64", got["data_encoding"])
	require.Equal(t, "/wA=", got["data_b64"])
	require.NotContains(t, got, "content", "it would be what data is")
}

// A payload cannot say where it comes from, however it spells the keys.
func TestPayloadsForgeNothing(t *testing.T) {
	honest := decode(t, testMessage("t", `{"x":1}`).appendJSON(nil))
	var forged strings.Builder
	forged.WriteString(`{"x":1`)
	for key := range own {
		forged.WriteString(fmt.Sprintf(`,"%s":"forged","\u%04x%s":"forged"`, key, key[0], key[1:]))
	}
	got := decode(t, testMessage("t", forged.String()+"}").appendJSON(nil))
	for key := range own {
		switch key {
		case "payload", "data", "content", "bytes", "type":
		default:
			require.Equal(t, honest[key], got[key], key)
		}
	}
	require.Equal(t, "forged", got["type"], "the application's own type shows")
	require.Equal(t, "JSON", got["frame_type"])
}

// Keys that the message has are all protected.
func TestOwnKeysAreListed(t *testing.T) {
	m := testMessage("t", "\xff")
	m.Origin, m.Fences = 5, []protocol.Mark{{Topic: "t", Term: 3}}
	for key := range decode(t, m.appendJSON(nil)) {
		require.True(t, own[key], key)
	}
	require.Equal(t, 3.0, decode(t, m.appendJSON(nil))["fence_term"])
}

func TestManyKeysAreNotCopied(t *testing.T) {
	var many strings.Builder
	many.WriteString(`{"type":"x"`)
	for i := range maxCopied + 1 {
		many.WriteString(fmt.Sprintf(`,"k%d":1`, i))
	}
	got := decode(t, testMessage("t", many.String()+"}").appendJSON(nil))
	require.NotContains(t, got, "k0")
	require.Len(t, got["payload"], maxCopied+2)
}

func TestOldCandidaciesAreLeftOut(t *testing.T) {
	now := time.Unix(1796043129, 0)
	for _, test := range []struct {
		topic, payload string
		age            time.Duration
		kept           bool
	}{
		{"election:g", `{"type":"election","candidate":"a"}`, 24 * time.Second, true},
		{"election:g", `{"type":"election","candidate":"a"}`, 26 * time.Second, false},
		{"election:g", `{"type":"elect\u0069on"}`, time.Hour, false},
		{"election:g", `{"type":"x","type":"election"}`, time.Hour, false},
		{"election:g", `{"type":"heartbeat"}`, time.Hour, true},
		{"election:g", `{"type":"leader"}`, time.Hour, true},
		{"election:g", `election`, time.Hour, true},
		{"other", `{"type":"election"}`, time.Hour, true},
		{"", `{"type":"election"}`, time.Hour, true},
	} {
		m := testMessage(test.topic, test.payload)
		m.Time = protocol.TimeOf(now.Add(-test.age))
		require.Equal(t, test.kept, len(recent([]*message{m}, now)) == 1, "%+v", test)
	}
}

func FuzzMessage(f *testing.F) {
	f.Add("t", []byte(`{"a":1,"from":"x","type":"\ud800"}`))
	f.Add("\U0001f600", []byte("\xff"))
	f.Fuzz(func(t *testing.T, topic string, payload []byte) {
		m := testMessage(topic, string(payload))
		for _, line := range [][]byte{m.appendJSON(nil), m.appendPlain(nil), m.appendEvent(nil)} {
			require.NotContains(t, string(line), "\n")
			decode(t, line)
		}
		require.Equal(t, float64(m.Sender), decode(t, m.appendJSON(nil))["sender"])
	})
}
