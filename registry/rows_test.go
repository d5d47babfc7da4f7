package registry

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
)

// The bytes of format 1. They are in logs and never change.
func TestRowsOfFormat1(t *testing.T) {
	d := newTrial(t, brokerOptions{})
	d.enroll(1000, 0x80000001, publicKey(7), "host", []string{"a", "bc"})
	require.Nil(t, d.join(d.now, 0x80000001, []string{"jobs"}, false))
	for range 300 {
		d.put(0x80000001, "jobs")
	}
	d.clearInbox(0x80000001, 300)
	d.judge(protocol.KeyEntry{
		Key: protocol.KeyHash(publicKey(9)), Standing: protocol.StandingAdmitted, Since: 1000, Labels: []string{"a", "bc"}, Token: []byte{1, 2, 3, 4, 5, 6, 7, 8},
	})
	d.keepToken(joinToken{
		hash: protocol.TokenHash(publicKey(8)),
		TokenEntry: protocol.TokenEntry{
			ID: protocol.TokenID{1, 2, 3, 4, 5, 6, 7, 8}, Created: 1000, Expires: 2000, Uses: 5, Used: 2, Revoked: true, Labels: []string{"a"}, Note: "n",
		},
	})
	d.store()
	var got []string
	for table, rows := range d.entries {
		for key, value := range rows {
			got = append(got, table+" "+hex.EncodeToString([]byte(key))+" "+hex.EncodeToString(value))
		}
	}
	require.ElementsMatch(t, []string{
		"nodes 80000001 0194c420" + strings.Repeat("07", 32) + "a4686f737492a161a26263cd03e8",
		"joins 800000016a6f6273 0190",
		"cursors 80000001 0191cd012c",
		"senders 80000001 0190",
		"standings " + strings.Repeat("09", 32) + " 019401cd03e892a161a26263c4080102030405060708",
		"tokens 0102030405060708 0198c420" + strings.Repeat("08", 32) + "cd03e8cd07d005020191a161a16e",
	}, got)
}

func TestDamagedRowsAreErrors(t *testing.T) {
	node := string(nodeRow(&protocol.Node{Key: publicKey(1), Name: "n", Tags: []string{"t"}, LastSeen: 1000}))
	hash := string(publicKey(1))
	standing := string(standingRow(&protocol.KeyEntry{Standing: 1}))
	token := string(tokenRow(&joinToken{}))
	for _, e := range []struct{ table, key, value string }{
		{tableNodes, "\x80\x00\x00", node},
		{tableNodes, "\x80\x00\x00\x00x", node},
		{tableNodes, "\x80\x00\x00\x00", ""},
		{tableNodes, "\x80\x00\x00\x00", "\x01"},
		{tableNodes, "\x80\x00\x00\x00", "\x02" + node[1:]},
		{tableNodes, "\x80\x00\x00\x00", node + "\x00"},
		{tableNodes, "\x80\x00\x00\x00", node[:len(node)-1]},
		{tableNodes, "\x80\x00\x00\x00", "\x01\x93" + node[2:]},
		{tableNodes, "\x80\x00\x00\x00", "\x01\x94\xa1k\xa1n\x90\x01"}, // text for a key
		{tableNodes, "\x80\x00\x00\x00", "\x01\x94\xc4\x00\xa1n\x90\xff"},
		{tableJoins, "\x80\x00\x00", "\x01\x90"},
		{tableJoins, "\x80\x00\x00\x00", "\x01\x90"},
		{tableJoins, "\x80\x00\x00\x00a.*", "\x01\x90"},
		{tableJoins, "\x80\x00\x00\x00a", "\x01\x91\x00"},
		{tableJoins, "\x80\x00\x00\x00a", "\x01"},
		{tableCursors, "\x80\x00\x00\x00", "\x01\x91\xff"},
		{tableCursors, "\x80\x00\x00\x00", "\x01\x91\xcc\x01"},
		{tableCursors, "\x80\x00\x00\x00", "\x01\x90"},
		{tableCursors, "\x80\x00\x00\x00a", "\x01\x91\x01"},
		{tableNodes, "\x00\x00\x00\x00", node},
		{tableJoins, "\x00\x00\x00\x00a", "\x01\x90"},
		{tableCursors, "\x00\x00\x00\x00", "\x01\x91\x01"},
		{tableSenders, "\x80\x00\x00\x00a", "\x01\x90"},
		{tableSenders, "\x00\x00\x00\x00", "\x01\x90"},
		{tableSenders, "\x80\x00\x00\x00", "\x01\x91\x01"},
		{tableStandings, "short", standing},
		{tableStandings, hash + "x", standing},
		{tableStandings, hash, "\x01\x94\x03\x00\x90\xc4\x00"},
		{tableStandings, hash, standing + "\x00"},
		{tableTokens, "short", token},
		{tableTokens, "12345678x", token},
		{tableTokens, "12345678", token[:len(token)-1]},
		{tableTokens, "12345678", "\x01\x98\xc4\x00\x00\x00\x00\x00\x00\x90\xa0"}, // no hash
		{tableTokens, "12345678", strings.Replace(token, "\x00\x00\x00\x00\x00\x90", "\x00\x00\x00\x00\x02\x90", 1)},
	} {
		b := newBroker(protocol.Epoch{ID: thisEpoch}, brokerOptions{})
		err := b.loadEntry(Entry{Table: e.table, Key: e.key, Value: []byte(e.value)})
		require.Error(t, err, "%q", e)
		require.ErrorContains(t, err, "table "+e.table)
		require.Equal(t, dump(newBroker(protocol.Epoch{ID: thisEpoch}, brokerOptions{})), dump(b))
	}
}

func TestTablesOfOthersAreLeftAlone(t *testing.T) {
	b := newBroker(protocol.Epoch{ID: thisEpoch}, brokerOptions{})
	require.NoError(t, b.loadEntry(Entry{Table: "theirs", Key: "x", Value: []byte("y")}))
}

// Whatever is in a row, loading it does not crash, and what it accepts it would
// write the same.
func FuzzRows(f *testing.F) {
	f.Add(byte(0), "\x80\x00\x00\x00", nodeRow(&protocol.Node{Key: publicKey(1), Name: "n", Tags: []string{"t", ""}, LastSeen: 1000}))
	f.Add(byte(0), "\x80\x00\x00\x00", []byte("\x01\x94\xc4\x00\xa0\x90\x00"))
	f.Add(byte(0), "\x00\x00\x00\x00", []byte("\x01\x94\xc4\x010\xa10\x92\xa10\xa0\xcd00"))
	f.Add(byte(1), "\x80\x00\x00\x00jobs", joinRow())
	f.Add(byte(2), "\x80\x00\x00\x00", cursorRow(1<<63))
	f.Add(byte(2), "\x80\x00\x00\x00", []byte("\x01\x91\xdd\xff\xff\xff\xff"))
	f.Add(byte(3), "\x80\x00\x00\x00", joinRow())
	f.Add(byte(4), string(publicKey(1)), standingRow(&protocol.KeyEntry{Standing: 1, Labels: []string{"a"}, Token: []byte{1}}))
	f.Add(byte(5), "12345678", tokenRow(&joinToken{TokenEntry: protocol.TokenEntry{Uses: 1, Revoked: true, Labels: []string{"a"}, Note: "n"}}))
	f.Fuzz(func(t *testing.T, table byte, key string, value []byte) {
		b := newBroker(protocol.Epoch{ID: thisEpoch}, brokerOptions{})
		e := Entry{
			Table: []string{tableNodes, tableJoins, tableCursors, tableSenders, tableStandings, tableTokens}[table%6],
			Key:   key, Value: value,
		}
		if b.loadEntry(e) != nil {
			return
		}
		var again Entry
		switch e.Table {
		case tableNodes:
			n := b.nodes(0, 0, "")[0]
			again = Entry{e.Table, nodeKey(n.ID), nodeRow(&n)}
		case tableJoins:
			for id := range b.byNode {
				again = Entry{e.Table, joinKey(id, b.joined(id, "", 0)[0]), joinRow()}
			}
		case tableCursors:
			for id := range b.byNode {
				again = Entry{e.Table, nodeKey(id), cursorRow(b.cursor(id))}
			}
		case tableSenders:
			for id := range b.spoken {
				again = Entry{e.Table, nodeKey(id), joinRow()}
			}
		case tableStandings:
			for key, k := range b.standingOf {
				again = Entry{e.Table, string(key[:]), standingRow(&k)}
			}
		case tableTokens:
			for id, k := range b.tokens {
				again = Entry{e.Table, string(id[:]), tokenRow(&k)}
			}
		}
		require.Equal(t, e, again)
	})
}
