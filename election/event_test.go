package election

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
)

func TestTheStampIsTheTerm(t *testing.T) {
	for _, raw := range []string{`0`, `-1`, `1.5`, `"1"`, `null`, `1e17`} {
		text := []byte(`{"type":"election","candidate":"a","term":` + raw + `}`)
		m := protocol.Message{Topic: "g", Payload: text, Fences: []protocol.Mark{{Topic: "g", Term: 9}}}
		e := readingOf(&m, protocol.Epoch{})
		require.Zero(t, e.Void, raw)
		require.EqualValues(t, 9, e.Term)
		require.Zero(t, e.Message.Term)
		m.Fences[0].Topic = "another"
		require.Equal(t, VoidTerm, readingOf(&m, protocol.Epoch{}).Void, raw)
	}
}

// A reader that remembers reads what one that does not reads.
func TestAReaderDoesNotMixMessagesUp(t *testing.T) {
	var r reader
	for _, text := range []string{
		``, `{"type":"heartbeat","leader":"7","term":3,"timestamp":"1"}`, `{"type":"heartbeat","leader":"7","term":0}`,
		`{"type":"heartbeat","leader":"7","term":3,"timestamp":"2"}`, `no object`, `{"type":"resign","leader":"7","term":3}`,
	} {
		for _, fences := range [][]protocol.Mark{{{Topic: "g", Term: 9}}, nil, {{Topic: "g", Term: 8}}, nil} {
			for seq := range protocol.Seq(2) {
				m := protocol.Message{Topic: "g", Seq: seq, Sender: 7, Payload: []byte(text), Fences: fences}
				require.Equal(t, readingOf(&m, protocol.Epoch{ID: 1}), r.reading(&m, protocol.Epoch{ID: 1}), "%q %v", text, fences)
			}
		}
	}
}

// A follower reads heartbeats all day; most are the same as the one before.
func BenchmarkReading(b *testing.B) {
	beat := func(second int64) *protocol.Message {
		m := Message{Kind: KindHeartbeat, Node: "2947483648", Term: 1764500001, Priority: DefaultPriority("2947483648"), Instance: protocol.Instance{1}}
		return &protocol.Message{Topic: "g", Payload: m.Append(nil, time.Unix(second, 0)), Fences: []protocol.Mark{{Topic: "g", Term: 1764500001}}}
	}
	for name, beats := range map[string][2]*protocol.Message{
		"the same": {beat(1764500000), beat(1764500000)},
		"another":  {beat(1764500000), beat(1764500001)},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var r reader
			for i := 0; b.Loop(); i++ {
				r.reading(beats[i%2], protocol.Epoch{ID: 1})
			}
		})
	}
}

func TestOnlyWhatIsSurelyARefusalIsOne(t *testing.T) {
	const epoch = protocol.EpochID(3)
	require.Equal(t, acked{7, epoch}, answerOf(7, epoch, nil))

	stale := &protocol.Error{Code: protocol.ErrStaleTerm, Epoch: epoch, Fence: protocol.Fence{K: 5, S: 6}}
	require.Equal(t,
		refused{Attempt: 7, Code: protocol.ErrStaleTerm, Epoch: epoch, Fence: stale.Fence},
		answerOf(7, 0, fmt.Errorf("publish: %w", stale)))

	for _, err := range []error{
		context.DeadlineExceeded,
		protocol.ErrUnknownOutcome,
		protocol.Errorf(protocol.ErrNotConnected, "gone"),
		protocol.Errorf(protocol.ErrInternal, "a bug"),
		// A client that was sent away while it waited for the answer.
		fmt.Errorf("%w: %w", protocol.ErrUnknownOutcome, protocol.Errorf(protocol.ErrDenied, "out")),
	} {
		require.Equal(t, unanswered{7}, answerOf(7, 0, err), "%v", err)
	}
}
