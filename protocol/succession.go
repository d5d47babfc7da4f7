package protocol

import (
	"crypto/ed25519"
	"slices"
)

// Succession says that a registry's key was replaced, signed with the old key.
// The signature is Ed25519 over the text "pilot-registry successor 1" and a zero
// byte, the old public key, the new public key.
type Succession struct {
	Old, New  ed25519.PublicKey
	Signature []byte
}

const successionText = "pilot-registry successor 1\x00"

func successionBytes(old, successor ed25519.PublicKey) []byte {
	return slices.Concat([]byte(successionText), old, successor)
}

// SignSuccession hands the registry over from the key old to successor.
func SignSuccession(old ed25519.PrivateKey, successor ed25519.PublicKey) Succession {
	pub := old.Public().(ed25519.PublicKey)
	return Succession{Old: pub, New: successor, Signature: ed25519.Sign(old, successionBytes(pub, successor))}
}

// Verify reports whether the old key signed the statement.
func (s Succession) Verify() bool {
	return len(s.Old) == ed25519.PublicKeySize && len(s.New) == ed25519.PublicKeySize &&
		ed25519.Verify(s.Old, successionBytes(s.Old, s.New), s.Signature)
}

// Follows reports whether valid successions lead from the key pinned to the key
// proved, in any order and past any forks. It looks at the first MaxSuccessions
// only, and at each once.
func Follows(pinned, proved ed25519.PublicKey, chain []Succession) bool {
	chain = chain[:min(len(chain), MaxSuccessions)]
	reached := []ed25519.PublicKey{pinned}
	for i := 0; i < len(reached); i++ {
		if reached[i].Equal(proved) {
			return len(proved) == ed25519.PublicKeySize
		}
		for _, s := range chain {
			if reached[i].Equal(s.Old) && !slices.ContainsFunc(reached, isKey(s.New)) && s.Verify() {
				reached = append(reached, s.New)
			}
		}
	}
	return false
}

func isKey(k ed25519.PublicKey) func(ed25519.PublicKey) bool {
	return func(other ed25519.PublicKey) bool { return k.Equal(other) }
}
