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
	ErrStaleTerm      Code = 14 // stale_term: the term is not the fence's value, or raises it too little
	ErrConflict       Code = 15 // conflict: the fence has moved since it was read
	ErrKeyReused      Code = 16 // key_reused: the idempotency key belongs to another message
	ErrUnknownOutcome Code = 17 // unknown_outcome: whether the message is in the log cannot be told
	ErrDraining       Code = 18 // unavailable: the registry is shutting down; come back later
	ErrLimit          Code = 19 // limit_exceeded: too many connections, subscriptions, joins, …
	ErrNotFound       Code = 20 // not_found: there is no such thing
	ErrUnsupported    Code = 21 // not_supported: the peer cannot do this; also errors.ErrUnsupported
	ErrWrongKey       Code = 22 // wrong_key: the registry proved another key than the pinned one
	ErrTimeout        Code = 23 // timeout: no answer within a deadline of the protocol
	ErrNotConnected   Code = 24 // connection_failed: there is no connection to the registry
	ErrClosed         Code = 25 // closed: the local side was closed
)

// codes tells of each: its name, its text where that is not the name with
// spaces, and its hint.
var codes = [...]struct{ name, text, hint string }{
	ErrInternal: {
		name: "internal",
		text: "internal error",
	},
	ErrMalformed: {
		name: "malformed",
		hint: "the two sides do not speak the same protocol, or the network changed bytes",
	},
	ErrVersion: {
		name: "version_mismatch",
		text: "no protocol version in common",
		hint: "upgrade the older of the two sides",
	},
	ErrDenied: {
		name: "permission_denied",
		hint: "ask the registry's operator for access to this topic",
	},
	ErrNotAdmitted: {
		name: "auth_required",
		text: "not admitted",
		hint: "ask the registry's operator to admit this node's fingerprint ('pilotgo info' shows it), or, unless the key was revoked, for a join token ('pilotgo registry token create')",
	},
	ErrNodeIDTaken: {
		name: "node_id_taken",
		text: "node id taken by another key",
		hint: "the registry bound this node id to another key: make a new identity",
	},
	ErrInvalidTopic: {
		name: "invalid_argument",
		text: "invalid topic",
		hint: "a topic is 1 to 1024 bytes of UTF-8 without control characters and '*', and does not begin with '$'",
	},
	ErrInvalidPattern: {
		name: "invalid_argument",
		text: "invalid pattern",
		hint: "a pattern is a topic, '*' alone, or a prefix ending in '.*' or ':*'",
	},
	ErrInvalid: {name: "invalid_argument"},
	ErrTooLarge: {
		name: "too_large",
		hint: "send less at once; the registry told its maximum when the session began",
	},
	ErrRateLimited: {
		name: "rate_limited",
		hint: "wait as long as the error says, then try again",
	},
	ErrStorageFull: {
		name: "storage_full",
		hint: "the registry's disk is full; reads go on: free space there or shorten retention",
	},
	ErrWrongEpoch: {
		name: "wrong_epoch",
		hint: "the registry began a new log: read its state anew before writing",
	},
	ErrStaleTerm: {
		name: "stale_term",
		hint: "a higher term was accepted since: read it before writing again",
	},
	ErrConflict: {
		name: "conflict",
		hint: "somebody else wrote first: read the newest state and decide again",
	},
	ErrKeyReused: {
		name: "key_reused",
		hint: "use a new idempotency key for each message",
	},
	ErrUnknownOutcome: {
		name: "unknown_outcome",
		hint: "read the topic to see whether the message is there before sending it again",
	},
	ErrDraining: {
		name: "unavailable",
		text: "registry is draining",
		hint: "the registry is restarting; try again in a moment",
	},
	ErrLimit: {
		name: "limit_exceeded",
		hint: "close what is not needed, or ask the operator for a higher limit",
	},
	ErrNotFound:    {name: "not_found"},
	ErrUnsupported: {name: "not_supported"},
	ErrWrongKey: {
		name: "wrong_key",
		hint: "if the registry was really given a new key, run 'pilotgo registry forget HOST'; else somebody may be in between",
	},
	ErrTimeout: {
		name: "timeout",
		hint: "nothing answered in time: the registry is not there or hangs, or UDP is blocked on the way",
	},
	ErrNotConnected: {
		name: "connection_failed",
		text: "not connected",
		hint: "check the host and port, and that a registry runs there: pilotgo registry serve",
	},
	ErrClosed: {name: "closed"},
}

// Codes lists every code this build knows, in rising order.
func Codes() []Code {
	var list []Code
	for c := ErrInternal; c < Code(len(codes)); c++ {
		list = append(list, c)
	}
	return list
}

// Name is the stable text of the code, in pilotctl's spelling where pilotctl
// has the same error. An unknown code is "code_N".
func (c Code) Name() string {
	if 0 < c && c < Code(len(codes)) {
		return codes[c].name
	}
	return fmt.Sprintf("code_%d", uint64(c))
}

// Hint tells a person what to do about the error; it may be empty.
func (c Code) Hint() string {
	if c < Code(len(codes)) {
		return codes[c].hint
	}
	return ""
}

// Error makes a Code usable as a sentinel.
func (c Code) Error() string {
	if c < Code(len(codes)) && codes[c].text != "" {
		return codes[c].text
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

	// Topic, Epoch and Fence are set on ErrStaleTerm, ErrConflict and
	// ErrWrongEpoch: the fence that refused, with the log's epoch and the value it
	// has there. It was told, not read: read up to Fence.S before deciding anew.
	Topic string
	Epoch EpochID
	Fence Fence
}

// Errorf makes an Error with a formatted detail.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Detail: fmt.Sprintf(format, args...)}
}

func (e *Error) Error() string {
	s := e.Code.Error()
	if e.Code == ErrStaleTerm {
		s = fmt.Sprintf("%s: have %d", s, e.Fence.K)
	}
	if e.Code == ErrConflict && (e.Topic != "" || e.Fence != Fence{}) { // or of no fence at all
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
