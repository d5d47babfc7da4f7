package config

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/pilotgo/pilotgo/protocol"
)

// Digest is the SHA-256 of a document's bytes.
type Digest [sha256.Size]byte

// DigestOf is the digest of bytes.
func DigestOf(b []byte) Digest { return sha256.Sum256(b) }

const digestPrefix = "sha256:"

// String is "sha256:" and 64 hex digits, or "" for the zero digest.
func (d Digest) String() string {
	if d == (Digest{}) {
		return ""
	}
	return digestPrefix + hex.EncodeToString(d[:])
}

// ParseDigest reads what String prints. The error is ErrInvalid.
func ParseDigest(s string) (d Digest, err error) {
	text, ok := strings.CutPrefix(s, digestPrefix)
	if !ok || len(text) != hex.EncodedLen(len(d)) {
		return d, protocol.Errorf(protocol.ErrInvalid, "digest %q is not sha256: and 64 hex digits", s)
	}
	if _, err := hex.Decode(d[:], []byte(text)); err != nil {
		return Digest{}, protocol.Errorf(protocol.ErrInvalid, "digest %q is not sha256: and 64 hex digits", s)
	}
	return d, nil
}

// Document is one version of a swarm's configuration. Its fields are not to be
// changed, nor the bytes they hold.
type Document struct {
	Version uint64
	Config  []byte // a JSON object, byte for byte as it was published
	Digest  Digest // of Config

	Reason string // why it was published
	Who    string // who published it, as they say

	// RolledBackFrom and RolledBackTo are set on a rollback: the version that was
	// given up, and the one whose content this is.
	RolledBackFrom, RolledBackTo uint64
}
