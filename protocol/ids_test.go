package protocol_test

import (
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/require"
)

func TestNodeIDOf(t *testing.T) {
	for _, test := range []struct {
		key  string // seed of 32 bytes for the key of RFC 8032, or the public key
		want protocol.NodeID
	}{
		// printf 'HEX' | xxd -r -p | sha256sum, first 8 digits shifted right by one.
		{"0000000000000000000000000000000000000000000000000000000000000000", 0x66687aad>>1 | 1<<31},
		{"d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", 0x21fe31df>>1 | 1<<31},
	} {
		key, err := hex.DecodeString(test.key)
		require.NoError(t, err)
		require.Equal(t, test.want, protocol.NodeIDOf(ed25519.PublicKey(key)))
		require.GreaterOrEqual(t, test.want, protocol.NodeID(1<<31))
	}
}

func TestAddress(t *testing.T) {
	for id, text := range map[protocol.NodeID]string{
		0:              "0:0000.0000.0000",
		5:              "0:0000.0000.0005",
		0x00a3f291:     "0:0000.00A3.F291",
		1 << 31:        "0:0000.8000.0000",
		math.MaxUint32: "0:0000.FFFF.FFFF",
	} {
		require.Equal(t, text, id.Address())
		for _, s := range []string{text, strings.ToLower(text), id.String()} {
			got, err := protocol.ParseNodeID(s)
			require.NoError(t, err, s)
			require.Equal(t, id, got, s)
		}
	}
	for _, bad := range []string{
		"", " ", "-1", "+5", "5 ", " 5", "4294967296", "0x5", "1_000", "5.0", "５",
		"0:0000.0000", "0:0000.0000.0000.0000", "0:000.0000.0005", "0:0000.0000.00005", "0:0000.0000.+005",
		"0:0000.0000.0x05", "0:0000.0000.000g", ":0000.0000.0005", "0000.0000.0005", "0:0:0000.0000.0005",
		"1:0001.00A3.F291", "1:0000.0000.0005", "0:0001.0000.0005", "1:00A3.F291.0004", "0:0000.0000.0005:80",
		"00:0000.0000.0005", "-0:0000.0000.0005", "0:0000.0000.0005\n",
	} {
		_, err := protocol.ParseNodeID(bad)
		require.ErrorIs(t, err, protocol.ErrInvalid, "%q", bad)
	}
}

func FuzzAddress(f *testing.F) {
	for _, s := range []string{"5", "0:0000.8000.00af", "1:0001.0000.0000", "0:0000.0000", "4294967295", "007"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := protocol.ParseNodeID(s)
		if err != nil {
			require.ErrorIs(t, err, protocol.ErrInvalid)
			return
		}
		decimal := strings.TrimLeft(s, "0") == strings.TrimLeft(id.String(), "0")
		require.True(t, decimal || strings.ToUpper(s) == id.Address(), "%q is %d", s, id)
		again, err := protocol.ParseNodeID(id.Address())
		require.NoError(t, err)
		require.Equal(t, id, again)
	})
}

func TestTime(t *testing.T) {
	for _, test := range []struct {
		in   time.Time
		want protocol.Time
	}{
		{time.Unix(0, 0), 0},
		{time.Unix(0, 1), 1},
		{time.Unix(1767225600, 123456789), 1767225600_123456789},
		{time.Unix(-1, 999999999), 0},
		{time.Time{}, 0},
		{time.Date(1500, 1, 1, 0, 0, 0, 0, time.UTC), 0}, // beyond what UnixNano can tell
		{time.Date(2500, 1, 1, 0, 0, 0, 7, time.UTC), 16725225600_000000007},
	} {
		got := protocol.TimeOf(test.in)
		require.Equal(t, test.want, got, "%v", test.in)
		if got > 0 {
			require.True(t, got.Time().Equal(test.in), "%v", test.in)
			require.Equal(t, time.UTC, got.Time().Location())
		}
	}
	require.Equal(t, 2554, protocol.Time(math.MaxUint64).Time().Year())
}

func TestEpochID(t *testing.T) {
	for _, id := range []protocol.EpochID{0, 1, epoch, math.MaxUint64} {
		require.Len(t, id.String(), 16)
		got, err := protocol.ParseEpochID(id.String())
		require.NoError(t, err)
		require.Equal(t, id, got)
	}
	require.Equal(t, "1f3a5c7e9b2d4f60", epoch.String())
	for _, bad := range []string{"", "1f3a5c7e9b2d4f6", "1f3a5c7e9b2d4f600", "1f3a5c7e9b2d4f6g", "0x3a5c7e9b2d4f60", "+f3a5c7e9b2d4f60"} {
		_, err := protocol.ParseEpochID(bad)
		require.ErrorIs(t, err, protocol.ErrInvalid, bad)
	}
}

func TestInstance(t *testing.T) {
	require.Equal(t, "5f1d6c0e8a3b47b2912c44d07e61a9f3", fmt.Sprint(protocol.Instance(key[:16])))
}
