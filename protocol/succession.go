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

// Follows reports whether a chain of valid successions leads from the key
// pinned to the key proved. Each statement is used at most once.
func Follows(pinned, proved ed25519.PublicKey, chain []Succession) bool {
	at := pinned
	for range len(chain) + 1 {
		if at.Equal(proved) {
			return true
		}
		i := slices.IndexFunc(chain, func(s Succession) bool { return at.Equal(s.Old) && s.Verify() })
		if i < 0 {
			return false
		}
		at = chain[i].New
	}
	return false
}
