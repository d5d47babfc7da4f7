package main

import (
	"errors"
	"testing"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/require"
)

// Forgetting a host is good advice where the host is what is missing.
func TestInboxHintsFollowTheError(t *testing.T) {
	const forget = "gone for good"
	for _, test := range []struct {
		err          error
		hint, noHint string
	}{
		{protocol.ErrNotConnected, forget, ""},
		{protocol.ErrTimeout, forget, ""},
		{protocol.Errorf(protocol.ErrInvalid, "identity file: damaged"), "", forget},
		{protocol.ErrWrongKey, protocol.ErrWrongKey.Hint(), forget},
		{protocol.ErrNotAdmitted, protocol.ErrNotAdmitted.Hint(), forget},
		{errors.New("a bug"), "", forget},
	} {
		alone := mailboxes{{host: host{addr: "h:1"}, err: test.err}}
		f := describe(alone.failed())
		require.Contains(t, f.hint, test.hint)
		require.NotContains(t, f.hint, "--partial", "there is no rest")
		if test.noHint != "" {
			require.NotContains(t, f.hint, test.noHint, "%v", test.err)
		}
		f = describe(append(alone, &mailbox{}).failed())
		require.Contains(t, f.hint, test.hint)
		require.Contains(t, f.hint, "see the rest with --partial")
	}
	require.NoError(t, mailboxes{{}}.failed())
}
