package protocol_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/require"
)

func TestCodes(t *testing.T) {
	codes := protocol.Codes()
	require.Equal(t, protocol.ErrInternal, codes[0])
	require.Equal(t, protocol.ErrClosed, codes[len(codes)-1])
	names := make(map[string]protocol.Code)
	texts := make(map[string]protocol.Code)
	for i, c := range codes {
		require.Equal(t, protocol.Code(i+1), c)
		require.Regexp(t, `^[a-z_]+$`, c.Name())
		require.Equal(t, strings.ToLower(c.Error()), c.Error())
		require.NotContains(t, c.Error(), "_")
		require.Zero(t, texts[c.Error()], "%q has two codes", c.Error())
		texts[c.Error()] = c
		if c.Name() != "invalid_argument" {
			require.Zero(t, names[c.Name()], "%q has two codes", c.Name())
		}
		names[c.Name()] = c
	}
	for _, c := range []protocol.Code{0, codes[len(codes)-1] + 1, 1 << 40} {
		require.Equal(t, fmt.Sprintf("code_%d", uint64(c)), c.Name())
		require.Equal(t, fmt.Sprintf("code %d", uint64(c)), c.Error())
		require.Empty(t, c.Hint())
	}
}

func TestErrorsMatch(t *testing.T) {
	err := fmt.Errorf("publish %q: %w", "jobs.created", protocol.Errorf(protocol.ErrTooLarge, "2 MiB"))
	require.EqualError(t, err, `publish "jobs.created": too large: 2 MiB`)
	require.ErrorIs(t, err, protocol.ErrTooLarge)
	require.NotErrorIs(t, err, protocol.ErrDenied)
	require.NotErrorIs(t, err, errors.ErrUnsupported)
	var typed *protocol.Error
	require.ErrorAs(t, err, &typed)
	require.Equal(t, "2 MiB", typed.Detail)
	var code protocol.Code
	require.ErrorAs(t, err, &code)
	require.Equal(t, protocol.ErrTooLarge, code)

	require.ErrorIs(t, protocol.Errorf(protocol.ErrUnsupported, "no fences"), errors.ErrUnsupported)
	require.ErrorIs(t, protocol.ErrUnsupported, errors.ErrUnsupported)
	require.NotErrorIs(t, protocol.ErrUnsupported, protocol.ErrNotFound)
}

func TestCodeOf(t *testing.T) {
	for _, test := range []struct {
		err  error
		want protocol.Code
	}{
		{nil, 0},
		{io.EOF, protocol.ErrInternal},
		{context.Canceled, protocol.ErrInternal},
		{protocol.ErrDenied, protocol.ErrDenied},
		{protocol.Errorf(protocol.ErrDenied, ""), protocol.ErrDenied},
		{fmt.Errorf("a: %w", fmt.Errorf("b: %w", protocol.ErrDenied)), protocol.ErrDenied},
		{errors.Join(io.EOF, protocol.Errorf(protocol.ErrLimit, "")), protocol.ErrLimit},
		{protocol.Errorf(777, ""), 777},
	} {
		require.Equal(t, test.want, protocol.CodeOf(test.err), "%v", test.err)
	}
}

func TestErrorText(t *testing.T) {
	fence := protocol.Fence{K: 9, S: 41}
	for want, err := range map[string]*protocol.Error{
		"permission denied":                            {Code: protocol.ErrDenied},
		"permission denied: a.b":                       {Code: protocol.ErrDenied, Detail: "a.b"},
		"stale term: have 9":                           {Code: protocol.ErrStaleTerm, Fence: fence},
		"conflict: have 9 at seq 41":                   {Code: protocol.ErrConflict, Fence: fence},
		"conflict: have 9 at seq 41: x":                {Code: protocol.ErrConflict, Fence: fence, Detail: "x"},
		"conflict: have 0 at seq 0":                    {Code: protocol.ErrConflict, Topic: "g"},
		"conflict: in use":                             {Code: protocol.ErrConflict, Detail: "in use"},
		"rate limited (retry in 1.5s)":                 {Code: protocol.ErrRateLimited, RetryAfter: 1500 * time.Millisecond},
		"code 777: later":                              {Code: 777, Detail: "later"},
		"registry is draining: upgrade (retry in 10s)": {Code: protocol.ErrDraining, Detail: "upgrade", RetryAfter: 10 * time.Second},
	} {
		require.EqualError(t, err, want)
	}
}

func TestRefusalsAsErrors(t *testing.T) {
	refuse := meanings["refuse"].(*protocol.Refuse)
	require.Equal(t, &protocol.Error{
		Code: protocol.ErrStaleTerm, Detail: "have a newer leader", RetryAfter: 250 * time.Millisecond,
		Topic: "election:workers", Epoch: epoch, Fence: protocol.Fence{K: 1767225700, S: 40},
	}, refuse.Err())
	fail := meanings["fail"].(*protocol.Fail)
	require.Equal(t, &protocol.Error{
		Code: protocol.ErrLimit, Detail: "256 subscriptions", RetryAfter: 2 * time.Second,
	}, fail.Err())
}

// Nobody can tell a mute registry from packets that are dropped on the way.
func TestTimeoutHintNamesBothCauses(t *testing.T) {
	require.Contains(t, protocol.ErrTimeout.Hint(), "hangs")
	require.Contains(t, protocol.ErrTimeout.Hint(), "UDP")
}
