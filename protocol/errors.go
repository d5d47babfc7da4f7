package protocol

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Code is the number of an error on the wire, and the sentinel to match it by:
//
//	if errors.Is(err, protocol.ErrStaleTerm) { … }
//
// Numbers are never reused. A number that this build does not know is kept and
// printed as it is.
type Code uint64

// The errors of the protocol. The name behind each is what [Code.Name] prints
// and what the command line puts into "code".
const (
	ErrInternal       Code = 1  // internal: a bug or a fault inside the peer
	ErrMalformed      Code = 2  // malformed: bytes that are no canonical frame, or a frame out of place
	ErrVersion        Code = 3  // version_mismatch: no protocol version in common
	ErrDenied         Code = 4  // permission_denied: an access rule forbids it
	ErrNotAdmitted    Code = 5  // auth_required: the registry does not know or admit this key
	ErrNodeIDTaken    Code = 6  // node_id_taken: another key holds this node id
	ErrInvalidTopic   Code = 7  // invalid_argument: not a topic
	ErrInvalidPattern Code = 8  // invalid_argument: not a pattern
	ErrInvalid        Code = 9  // invalid_argument: any other argument out of its range
	ErrTooLarge       Code = 10 // too_large: payload, frame or list above its maximum
	ErrRateLimited    Code = 11 // rate_limited: above a rate; the error tells when to try again
	ErrStorageFull    Code = 12 // storage_full: the log takes no more; reads go on
	ErrWrongEpoch     Code = 13 // wrong_epoch: the condition names another epoch of the log
	ErrStaleTerm      Code = 14 // stale_term: the fence has a higher value
	ErrConflict       Code = 15 // conflict: the fence has moved since it was read
	ErrKeyReused      Code = 16 // key_reused: the idempotency key belongs to another message
	ErrUnknownOutcome Code = 17 // unknown_outcome: whether the message is in the log cannot be told
	ErrDraining       Code = 18 // unavailable: the registry is shutting down; come back later
	ErrLimit          Code = 19 // limit_exceeded: too many connections, subscriptions, joins, …
	ErrNotFound       Code = 20 // not_found
	ErrUnsupported    Code = 21 // not_supported: also errors.ErrUnsupported
	ErrWrongKey       Code = 22 // wrong_key: the registry proved another key than the pinned one
	ErrTimeout        Code = 23 // timeout: no answer within a deadline of the protocol
	ErrNotConnected   Code = 24 // connection_failed: there is no connection to the registry
	ErrClosed         Code = 25 // closed: the local side was closed; also net.ErrClosed
)

var codeNames = map[Code]string{
	ErrInternal:       "internal",
	ErrMalformed:      "malformed",
	ErrVersion:        "version_mismatch",
	ErrDenied:         "permission_denied",
	ErrNotAdmitted:    "auth_required",
	ErrNodeIDTaken:    "node_id_taken",
	ErrInvalidTopic:   "invalid_argument",
	ErrInvalidPattern: "invalid_argument",
	ErrInvalid:        "invalid_argument",
	ErrTooLarge:       "too_large",
	ErrRateLimited:    "rate_limited",
	ErrStorageFull:    "storage_full",
	ErrWrongEpoch:     "wrong_epoch",
	ErrStaleTerm:      "stale_term",
	ErrConflict:       "conflict",
	ErrKeyReused:      "key_reused",
	ErrUnknownOutcome: "unknown_outcome",
	ErrDraining:       "unavailable",
	ErrLimit:          "limit_exceeded",
	ErrNotFound:       "not_found",
	ErrUnsupported:    "not_supported",
	ErrWrongKey:       "wrong_key",
	ErrTimeout:        "timeout",
	ErrNotConnected:   "connection_failed",
	ErrClosed:         "closed",
}

var codeTexts = map[Code]string{
	ErrInvalidTopic:   "invalid topic",
	ErrInvalidPattern: "invalid pattern",
	ErrNotAdmitted:    "not admitted",
	ErrNodeIDTaken:    "node id taken by another key",
	ErrVersion:        "no protocol version in common",
	ErrDraining:       "registry is draining",
	ErrNotConnected:   "not connected",
	ErrInternal:       "internal error",
}

var codeHints = map[Code]string{
	ErrVersion:        "upgrade the older of the two sides",
	ErrDenied:         "ask the registry's operator for access to this topic",
	ErrNotAdmitted:    "the registry admits known keys or tokens only: ask its operator for a join token",
	ErrNodeIDTaken:    "the registry bound this node id to another key: make a new identity",
	ErrInvalidTopic:   "a topic is 1 to 1024 bytes of UTF-8 without control characters and '*', and does not begin with '$'",
	ErrInvalidPattern: "a pattern is a topic, '*' alone, or a prefix ending in '.*' or ':*'",
	ErrTooLarge:       "send less at once; the registry told its maximum when the session began",
	ErrRateLimited:    "wait as long as the error says, then try again",
	ErrStorageFull:    "the registry's disk is full; reads go on: free space there or shorten retention",
	ErrWrongEpoch:     "the registry began a new log: read its state anew before writing",
	ErrStaleTerm:      "a higher term was accepted since: read it before writing again",
	ErrConflict:       "somebody else wrote first: read the newest state and decide again",
	ErrKeyReused:      "use a new idempotency key for each message",
	ErrUnknownOutcome: "read the topic to see whether the message is there before sending it again",
	ErrDraining:       "the registry is restarting; try again in a moment",
	ErrLimit:          "close what is not needed, or ask the operator for a higher limit",
	ErrWrongKey:       "if the registry was really given a new key, run 'pilotgo registry forget HOST'; else somebody may be in between",
	ErrTimeout:        "the registry took the connection but did not answer in time",
	ErrNotConnected:   "check the host and port, and that a registry runs there: pilotgo registry serve",
	ErrMalformed:      "the two sides do not speak the same protocol, or the network changed bytes",
}

// Codes lists every code this build knows, in rising order.
func Codes() []Code {
	codes := make([]Code, 0, len(codeNames))
	for c := ErrInternal; c <= ErrClosed; c++ {
		codes = append(codes, c)
	}
	return codes
}

// Name is the stable text of the code, in pilotctl's spelling where pilotctl
// has the same error. An unknown code is "code_N".
func (c Code) Name() string {
	if n, ok := codeNames[c]; ok {
		return n
	}
	return fmt.Sprintf("code_%d", uint64(c))
}

// Hint tells a person what to do about the error; it may be empty.
func (c Code) Hint() string { return codeHints[c] }

// Error makes a Code usable as a sentinel.
func (c Code) Error() string {
	if t, ok := codeTexts[c]; ok {
		return t
	}
	return strings.ReplaceAll(c.Name(), "_", " ")
}

// Is lets errors.Is match errors.ErrUnsupported.
func (c Code) Is(target error) bool {
	return c == ErrUnsupported && target == errors.ErrUnsupported
}

// Error is a refusal or failure with what a caller needs to act on it.
type Error struct {
	Code Code

	// Detail says what only the place of failure knows: which topic, which limit.
	Detail string

	// RetryAfter is when trying again makes sense; 0 where the registry does not say.
	RetryAfter time.Duration

	// Topic and Fence are set on ErrStaleTerm, ErrConflict and ErrWrongEpoch: the
	// fence that refused, with the value it has. It was told, not read: read up to
	// Fence.S before deciding anew.
	Topic string
	Fence Fence
}

// Errorf makes an Error with a formatted detail.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Detail: fmt.Sprintf(format, args...)}
}

func (e *Error) Error() string {
	s := e.Code.Error()
	switch e.Code {
	case ErrStaleTerm:
		s = fmt.Sprintf("%s: have %d", s, e.Fence.K)
	case ErrConflict:
		s = fmt.Sprintf("%s: have %d at seq %d", s, e.Fence.K, e.Fence.S)
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if e.RetryAfter > 0 {
		s += fmt.Sprintf(" (retry in %v)", e.RetryAfter)
	}
	return s
}

// Unwrap gives the sentinel.
func (e *Error) Unwrap() error { return e.Code }

// CodeOf is the code of the first Error or Code in err's chain, and ErrInternal
// for any other error; 0 for nil.
func CodeOf(err error) Code {
	if err == nil {
		return 0
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	var c Code
	if errors.As(err, &c) {
		return c
	}
	return ErrInternal
}
