package protocol

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// KeyHash is the SHA-256 of a public key: what a fingerprint says.
type KeyHash [sha256.Size]byte

// KeyHashOf is the hash of a key.
func KeyHashOf(key ed25519.PublicKey) KeyHash { return sha256.Sum256(key) }

const fingerprintPrefix = "sha256:"

// String is the fingerprint.
func (h KeyHash) String() string {
	return fingerprintPrefix + base64.RawURLEncoding.EncodeToString(h[:])
}

// ParseKeyHash reads a fingerprint, with or without space around it. The error
// is ErrInvalid.
func ParseKeyHash(fingerprint string) (KeyHash, error) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(fingerprint), fingerprintPrefix)
	sum, err := bytesOf(rest)
	if !ok || err != nil || len(sum) != len(KeyHash{}) {
		return KeyHash{}, Errorf(ErrInvalid, "%q is no fingerprint (sha256:…)", fingerprint)
	}
	return KeyHash(sum), nil
}

// bytesOf reads base64url without padding. Package base64 skips line ends, which
// would give the same bytes many texts.
func bytesOf(text string) ([]byte, error) {
	if i := strings.IndexAny(text, "\r\n"); i >= 0 {
		return nil, base64.CorruptInputError(i)
	}
	return base64.RawURLEncoding.Strict().DecodeString(text)
}

// TokenID names a join token. It is no secret.
type TokenID [8]byte

// String is 16 hex digits.
func (id TokenID) String() string { return hex.EncodeToString(id[:]) }

// ParseTokenID reads what String prints. The error is ErrInvalid.
func ParseTokenID(s string) (TokenID, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(TokenID{}) {
		return TokenID{}, Errorf(ErrInvalid, "%q is no token id (16 hex digits)", s)
	}
	return TokenID(b), nil
}

// TokenHash is what a registry keeps of a token's secret.
type TokenHash [sha256.Size]byte

// JoinToken lets its bearer into one registry, and tells by which key to know
// that registry.
type JoinToken struct {
	Registry KeyHash
	ID       TokenID
	Secret   [16]byte // random
}

const (
	tokenPrefix = "pjt1_"
	tokenCheck  = 4 // bytes
	tokenSize   = len(KeyHash{}) + len(TokenID{}) + 16 + tokenCheck
)

// String is the token as it is handed on: whoever reads it can join.
func (t JoinToken) String() string {
	b := make([]byte, 0, tokenSize)
	b = append(b, t.Registry[:]...)
	b = append(b, t.ID[:]...)
	b = append(b, t.Secret[:]...)
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(append(b, checkOf(b)...))
}

// checkOf tells a token that was cut or mistyped before it is used, when the
// fault would look like an attack.
func checkOf(b []byte) []byte {
	sum := sha256.Sum256(b)
	return sum[:tokenCheck]
}

// Hash is what the registry keeps of the token.
func (t JoinToken) Hash() TokenHash {
	b := append([]byte("pilot-registry token 1\x00"), t.ID[:]...)
	return sha256.Sum256(append(b, t.Secret[:]...))
}

// IsJoinToken tells a token of this form from one of an operator's own making,
// which is any text.
func IsJoinToken(text string) bool { return strings.HasPrefix(text, tokenPrefix) }

// ParseJoinToken reads what String prints. The error is ErrInvalid, and does not
// tell the token.
func ParseJoinToken(text string) (JoinToken, error) {
	rest, ok := strings.CutPrefix(text, tokenPrefix)
	b, err := bytesOf(rest)
	switch {
	case !ok:
		return JoinToken{}, Errorf(ErrInvalid, "no join token: it begins with %s", tokenPrefix)
	case err != nil || len(b) != tokenSize:
		return JoinToken{}, Errorf(ErrInvalid, "damaged join token: %d characters, not %d", len(text), len(tokenPrefix)+base64.RawURLEncoding.EncodedLen(tokenSize))
	}
	b, check := b[:tokenSize-tokenCheck], b[tokenSize-tokenCheck:]
	if !bytes.Equal(check, checkOf(b)) {
		return JoinToken{}, Errorf(ErrInvalid, "damaged join token: some characters are wrong")
	}
	var t JoinToken
	n := copy(t.Registry[:], b)
	n += copy(t.ID[:], b[n:])
	copy(t.Secret[:], b[n:])
	return t, nil
}

// ValidLabel checks a label of a key: 1 to 64 letters, digits, '-', '_' and '.'
// of ASCII. The error is ErrInvalid.
func ValidLabel(label string) error {
	if label == "" || len(label) > MaxLabel {
		return Errorf(ErrInvalid, "label of %d bytes, not 1 to %d", len(label), MaxLabel)
	}
	for _, c := range []byte(label) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
		default:
			return Errorf(ErrInvalid, "label %q: letters, digits, '-', '_' and '.' only", label)
		}
	}
	return nil
}

func checkLabels(labels []string) error {
	if len(labels) > MaxLabels {
		return tooLarge("labels", len(labels), MaxLabels)
	}
	for _, label := range labels {
		if err := ValidLabel(label); err != nil {
			return err
		}
	}
	return nil
}
