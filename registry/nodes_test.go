package registry

import (
	"bytes"
	"crypto/ed25519"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
)

// admit lets in a key that the configuration names.
func (d *trial) admit(now protocol.Time, key ed25519.PublicKey, name string, tags []string) (protocol.NodeID, *protocol.Error) {
	_, fault := d.letIn(now, &applicant{
		key: key, hash: protocol.KeyHashOf(key), name: name, tags: tags, mode: AdmitKnown, listed: true,
	})
	return protocol.NodeIDOf(key), fault
}

func publicKey(n byte) ed25519.PublicKey { return bytes.Repeat([]byte{n}, ed25519.PublicKeySize) }

func TestNodesComeAndGo(t *testing.T) {
	d := newTrial(t, brokerOptions{})
	key := publicKey(1)
	id, fault := d.admit(1000, key, "host", []string{"blue"})
	require.Nil(t, fault)
	require.Equal(t, protocol.NodeIDOf(key), id)
	want := protocol.Node{ID: id, Key: key, Name: "host", Tags: []string{"blue"}, Online: 1, LastSeen: 1000}
	require.Equal(t, []protocol.Node{want}, d.nodes(0, 0, ""))

	// A second session tells its own name.
	_, fault = d.admit(1500, key, "other", nil)
	require.Nil(t, fault)
	want.Name, want.Tags, want.Online, want.LastSeen = "other", nil, 2, 1500
	require.Equal(t, []protocol.Node{want}, d.nodes(0, 0, ""))
	known, online := d.nodeCount()
	require.Equal(t, []int{1, 1}, []int{known, online})

	d.leave(1400, id) // clocks go back
	require.Equal(t, protocol.Time(1500), d.nodes(0, 0, "")[0].LastSeen)
	d.leave(1600, id)
	d.leave(1700, id) // once too often
	d.leave(1700, id+1)
	want.Online, want.LastSeen = 0, 1600
	d.store()
	for range 2 {
		require.Equal(t, []protocol.Node{want}, d.nodes(0, 0, ""))
		known, online = d.nodeCount()
		require.Equal(t, []int{1, 0}, []int{known, online})
		d.restart()
	}
}

// Keys whose ids are the same cannot be had, so the table is given another key
// for one.
func TestNodeIDBelongsToItsFirstKey(t *testing.T) {
	d := newTrial(t, brokerOptions{})
	mine, theirs := publicKey(1), publicKey(2)
	id := protocol.NodeIDOf(mine)
	d.enroll(1000, id, theirs, "first", nil)
	d.leave(1000, id)
	d.store()
	for range 2 {
		_, fault := d.admit(2000, mine, "second", nil)
		require.NotNil(t, fault)
		require.Equal(t, protocol.ErrNodeIDTaken, fault.Code)
		require.Nil(t, d.staged())
		require.Equal(t, "first", d.nodes(0, 0, "")[0].Name)
		d.restart()
	}
	d.enroll(3000, id, theirs, "first", nil)
}

func TestAdmissionIsBounded(t *testing.T) {
	d := newTrial(t, brokerOptions{maxNodes: 2})
	_, fault := d.admit(1, publicKey(1), "", nil)
	require.Nil(t, fault)
	_, fault = d.admit(1, publicKey(2), "", nil)
	require.Nil(t, fault)
	_, fault = d.admit(1, publicKey(3), "", nil)
	require.NotNil(t, fault)
	require.Equal(t, protocol.ErrLimit, fault.Code)
	_, fault = d.admit(1, publicKey(1), "", nil)
	require.Nil(t, fault, "a known node always has room")
}

func TestNodePages(t *testing.T) {
	d := newTrial(t, brokerOptions{})
	for _, id := range []protocol.NodeID{30, 10, 40, 20} {
		d.enroll(1, id, publicKey(byte(id)), "", nil)
	}
	for _, node := range []protocol.NodeID{40, 10, 25, 20} { // 25 was never admitted here
		require.Nil(t, d.join(d.now, node, []string{"a"}, false))
	}
	for _, test := range []struct {
		after protocol.NodeID
		limit int
		topic string
		want  []protocol.NodeID
	}{
		{0, 0, "", []protocol.NodeID{10, 20, 30, 40}},
		{0, 2, "", []protocol.NodeID{10, 20}},
		{20, 2, "", []protocol.NodeID{30, 40}},
		{25, 1, "", []protocol.NodeID{30}},
		{40, 1, "", nil},
		{0, 0, "a", []protocol.NodeID{10, 20, 25, 40}},
		{10, 2, "a", []protocol.NodeID{20, 25}},
		{0, 0, "b", nil},
	} {
		var got []protocol.NodeID
		for _, n := range d.nodes(test.after, test.limit, test.topic) {
			got = append(got, n.ID)
		}
		require.Equal(t, test.want, got, "%d after %d of topic %q", test.limit, test.after, test.topic)
	}
}
