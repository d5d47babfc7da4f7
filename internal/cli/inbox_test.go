package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/pilotgo/pilotgo/client"
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

// pages are so many of one message each, all with the same payload.
func pages(m *mailbox, o *inboxOptions, n int, payload []byte) {
	for i := range n {
		m.take(&client.InboxPage{Head: 1000, Messages: []protocol.Message{
			{Seq: protocol.Seq(i + 1), Sender: 1, Topic: "t", Payload: payload},
		}}, o, 2)
	}
}

func TestInboxIsBoundedInBytes(t *testing.T) {
	for _, test := range []struct{ messages, size, kept int }{
		{0, 0, 0},
		{100, 0, 100},
		{64, 1 << 20, 64},
		{65, 1 << 20, 64},
		{300, 1 << 20, 64},
		{5, 40 << 20, 1},
		{5, 80 << 20, 1}, // the newest one, whatever its size
	} {
		m, o := new(mailbox), new(inboxOptions)
		pages(m, o, test.messages, make([]byte, test.size))
		require.Len(t, m.messages, test.kept, "%+v", test)
		require.Equal(t, test.messages-test.kept, m.dropped, "%+v", test)
		require.Equal(t, test.kept < test.messages, m.truncated, "%+v", test)
		if test.kept > 0 {
			require.Equal(t, protocol.Seq(test.messages), m.messages[test.kept-1].Seq)
		}

		// Two hosts together have no more.
		list, cut := o.choose(append(m.messages, m.messages...))
		require.LessOrEqual(t, len(list)*test.size, max(inboxBytes, test.size), "%+v", test)
		require.Equal(t, len(list) < 2*test.kept, cut, "%+v", test)
	}
}

func TestLimitIsNoTruncation(t *testing.T) {
	m := new(mailbox)
	pages(m, new(inboxOptions), 10, nil)
	list, cut := (&inboxOptions{limit: 3}).choose(m.messages)
	require.Len(t, list, 3)
	require.False(t, cut)
}

// gauge notes how much was rendered and not yet written.
type gauge struct{ rendered, written, most int }

func (g *gauge) Write(b []byte) (int, error) {
	g.most = max(g.most, g.rendered-g.written)
	g.written += len(b)
	return len(b), nil
}

// A list is never held as a whole in the form in which it is printed.
func TestListsAreStreamed(t *testing.T) {
	m := new(mailbox)
	pages(m, new(inboxOptions), 50, bytes.Repeat([]byte("x"), 100_000))
	g := new(gauge)
	o := new(object).setMessages("messages", m.messages, func(m *message, b []byte) []byte {
		b = m.appendJSON(b)
		g.rendered += len(b)
		return b
	})
	o.alias("items", "messages")
	var whole bytes.Buffer
	w := bufio.NewWriter(io.MultiWriter(g, &whole))
	o.writeEnvelope(w, compat{})
	require.NoError(t, w.Flush())
	require.Less(t, g.most, 1<<20)
	var got struct {
		Data            struct{ Messages []any }
		Messages, Items []any
	}
	require.NoError(t, json.Unmarshal(whole.Bytes(), &got))
	require.Len(t, got.Items, 50)
	require.Equal(t, got.Items, got.Messages)
	require.Equal(t, got.Items, got.Data.Messages)
}
