package protocol

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ALPN is the name of this protocol in the TLS handshake.
const ALPN = "pilot-registry/1"

// Version is the newest protocol version this package speaks, MinVersion the
// oldest.
const (
	Version    = 1
	MinVersion = 1
)

// DefaultPort is the UDP port of a registry host.
const DefaultPort = 9002

// NodeID names one agent identity. Ids from 1<<31 up are made from a key by
// [NodeIDOf]; lower ones are real Pilot ids.
type NodeID uint32

// NodeIDOf is 1<<31 plus the first 31 bits of the key's SHA-256: the same
// offline and on every registry.
func NodeIDOf(key ed25519.PublicKey) NodeID {
	sum := sha256.Sum256(key)
	return 1<<31 | NodeID(binary.BigEndian.Uint32(sum[:])>>1)
}

// String is the id in decimal.
func (n NodeID) String() string { return strconv.FormatUint(uint64(n), 10) }

// Address is the node's address text on network 0, as Pilot writes it:
// "0:0000.HHHH.LLLL" with the two halves of the id in upper-case hex.
func (n NodeID) Address() string {
	return fmt.Sprintf("0:0000.%04X.%04X", uint32(n)>>16, uint32(n)&0xffff)
}

// ParseNodeID reads a decimal id or an address text of network 0, in either
// case of hex. The error is ErrInvalid.
func ParseNodeID(s string) (NodeID, error) {
	if n, err := strconv.ParseUint(s, 10, 32); err == nil {
		return NodeID(n), nil
	}
	network, rest, ok := strings.Cut(s, ":")
	groups := strings.Split(rest, ".")
	if !ok || len(groups) != 3 {
		return 0, Errorf(ErrInvalid, "%q is neither a node id nor an address", s)
	}
	var hexed [3]uint64
	for i, g := range groups {
		n, err := strconv.ParseUint(g, 16, 16)
		if err != nil || len(g) != 4 {
			return 0, Errorf(ErrInvalid, "address %q: group %d is not 4 hex digits", s, i+1)
		}
		hexed[i] = n
	}
	if network != strconv.FormatUint(hexed[0], 10) {
		return 0, Errorf(ErrInvalid, "address %q: network %s and first group differ", s, network)
	}
	if hexed[0] != 0 {
		return 0, Errorf(ErrInvalid, "address %q: only network 0 is known", s)
	}
	return NodeID(hexed[1]<<16 | hexed[2]), nil
}

// Seq is the place of a message in one log: 1, 2, 3, … with gaps allowed,
// given by the registry. 0 is before the first.
type Seq uint64

// Time is registry time: nanoseconds since 1970 UTC, never below the one before
// in the log.
type Time uint64

// TimeOf converts; times before 1970 become 0.
func TimeOf(t time.Time) Time {
	sec := t.Unix()
	if sec < 0 {
		return 0
	}
	return Time(sec)*1e9 + Time(t.Nanosecond())
}

// Time converts to UTC.
func (t Time) Time() time.Time { return time.Unix(int64(t/1e9), int64(t%1e9)).UTC() }

// EpochID names one incarnation of a log; 0 is none.
type EpochID uint64

// String is 16 hex digits.
func (e EpochID) String() string { return fmt.Sprintf("%016x", uint64(e)) }

// ParseEpochID reads what String prints.
func ParseEpochID(s string) (EpochID, error) {
	n, err := strconv.ParseUint(s, 16, 64)
	if err != nil || len(s) != 16 {
		return 0, Errorf(ErrInvalid, "epoch %q is not 16 hex digits", s)
	}
	return EpochID(n), nil
}

// Epoch is one incarnation of a log. A log that lost acknowledged messages, was
// restored or imported has a new one.
type Epoch struct {
	ID   EpochID
	Born uint64 // the registry's clock at the log's birth, unix seconds
}

// Instance is 128 random bits of one client process. Two processes with one key
// are two instances.
type Instance [16]byte

// String is 32 hex digits.
func (i Instance) String() string { return hex.EncodeToString(i[:]) }
