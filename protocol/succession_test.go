package protocol_test

import (
	"bytes"
	"crypto/ed25519"
	"slices"
	"testing"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/require"
)

// keyOf makes a key that is the same in every run.
func keyOf(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

func public(n byte) ed25519.PublicKey { return keyOf(n).Public().(ed25519.PublicKey) }

func succession(from, to byte) protocol.Succession {
	return protocol.SignSuccession(keyOf(from), public(to))
}

func TestSuccessionSignsWhatTheSpecificationSays(t *testing.T) {
	s := succession(1, 2)
	require.Equal(t, public(1), s.Old)
	require.Equal(t, public(2), s.New)
	signed := slices.Concat([]byte("pilot-registry successor 1"), []byte{0}, public(1), public(2))
	require.Len(t, signed, 26+1+32+32)
	require.True(t, ed25519.Verify(public(1), signed, s.Signature))
	require.True(t, s.Verify())
}

func TestSuccessionForged(t *testing.T) {
	forge := func(change func(*protocol.Succession)) protocol.Succession {
		s := succession(1, 2)
		s.Signature = bytes.Clone(s.Signature)
		change(&s)
		return s
	}
	for name, s := range map[string]protocol.Succession{
		"zero":                {},
		"another new key":     forge(func(s *protocol.Succession) { s.New = public(3) }),
		"another old key":     forge(func(s *protocol.Succession) { s.Old = public(3) }),
		"swapped":             forge(func(s *protocol.Succession) { s.Old, s.New = s.New, s.Old }),
		"a bit of signature":  forge(func(s *protocol.Succession) { s.Signature[9] ^= 1 }),
		"a short signature":   forge(func(s *protocol.Succession) { s.Signature = s.Signature[:63] }),
		"no signature":        forge(func(s *protocol.Succession) { s.Signature = nil }),
		"a short old key":     forge(func(s *protocol.Succession) { s.Old = s.Old[:31] }),
		"a long new key":      forge(func(s *protocol.Succession) { s.New = append(bytes.Clone(s.New), 0) }),
		"signed by the new":   {Old: public(1), New: public(2), Signature: succession(2, 2).Signature},
		"text of another use": {Old: public(1), New: public(2), Signature: ed25519.Sign(keyOf(1), slices.Concat(public(1), public(2)))},
	} {
		require.False(t, s.Verify(), name)
		require.False(t, protocol.Follows(public(1), public(2), []protocol.Succession{s}), name)
	}
}

func TestFollows(t *testing.T) {
	forged := protocol.Succession{Old: public(1), New: public(9), Signature: make([]byte, 64)}
	for _, test := range []struct {
		name           string
		pinned, proved byte
		chain          []protocol.Succession
		want           bool
	}{
		{"the same key", 1, 1, nil, true},
		{"another key", 1, 2, nil, false},
		{"one step", 1, 2, []protocol.Succession{succession(1, 2)}, true},
		{"not back", 2, 1, []protocol.Succession{succession(1, 2)}, false},
		{"three steps", 1, 4, []protocol.Succession{succession(1, 2), succession(2, 3), succession(3, 4)}, true},
		{"in any order", 1, 4, []protocol.Succession{succession(3, 4), succession(2, 3), succession(1, 2)}, true},
		{"from the middle", 2, 4, []protocol.Succession{succession(1, 2), succession(2, 3), succession(3, 4)}, true},
		{"to the middle", 1, 3, []protocol.Succession{succession(1, 2), succession(2, 3), succession(3, 4)}, true},
		{"a step is missing", 1, 4, []protocol.Succession{succession(1, 2), succession(3, 4)}, false},
		{"a loop beside", 1, 9, []protocol.Succession{succession(1, 2), succession(2, 1)}, false},
		{"a loop on itself", 1, 9, []protocol.Succession{succession(1, 1)}, false},
		{"past a loop", 1, 3, []protocol.Succession{succession(1, 2), succession(2, 1), succession(2, 3)}, true},
		{"past a fork", 1, 4, []protocol.Succession{succession(1, 2), succession(1, 3), succession(3, 4)}, true},
		{"past a forgery", 1, 9, []protocol.Succession{forged, succession(1, 9)}, true},
		{"by a forgery", 1, 9, []protocol.Succession{forged}, false},
	} {
		require.Equal(t, test.want, protocol.Follows(public(test.pinned), public(test.proved), test.chain), test.name)
	}
	require.False(t, protocol.Follows(nil, nil, nil))
	require.False(t, protocol.Follows(nil, public(1), nil))
	require.False(t, protocol.Follows(public(1), nil, []protocol.Succession{{Old: public(1)}}))
}

func TestFollowsIsBounded(t *testing.T) {
	var chain []protocol.Succession
	for n := range byte(protocol.MaxSuccessions + 1) {
		chain = append(chain, succession(n, n+1))
	}
	require.True(t, protocol.Follows(public(0), public(protocol.MaxSuccessions), chain))
	require.False(t, protocol.Follows(public(0), public(protocol.MaxSuccessions+1), chain))
}
