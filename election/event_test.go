package election

import (
	"context"
	"fmt"
	"testing"

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
