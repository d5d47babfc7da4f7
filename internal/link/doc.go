// Package link is the authenticated connection between a client and a registry:
// a [Session] of [Channel]s, each an ordered, flow-controlled row of frames.
//
// # Identities
//
// Both sides prove an Ed25519 key in a TLS 1.3 handshake; [Session.PeerKey] is
// what the other side proved. Certificates are made on the spot, valid from 1970
// to 9999 and signed by nobody: only the key counts. A client checks the
// registry's key against a pin (given, or remembered on first use, see [Pins])
// and follows a chain of [protocol.Succession] statements from the pinned key.
// Any other change is [protocol.ErrWrongKey]. All checks run on resumed
// handshakes too. There is no early data: a replayed first flight would execute
// a publish again.
//
// # Channels
//
// Either side opens channels; the other sees one with its first frame. No
// channel blocks another: each has its own receive window, and the session's
// window is their sum. What is queued with [Channel.Send] leaves in order, many
// small frames in one write when the carrier is busy, at once when it is not.
//
// # Errors
//
// Every error is a [protocol.Error] underneath. A session closed by the peer
// gives the peer's code and text from all its methods; a session lost to the
// network gives [protocol.ErrNotConnected]; after a local Close every call gives
// an error that is [protocol.ErrClosed] and [net.ErrClosed], and nothing else
// does. If the context of a call ended it, the error is that of the context.
//
// # Time and goroutines
//
// A session has no timer of its own besides those of its carrier and starts
// nothing that outlives its Close, so all of it runs under virtual time.
//
// The carrier is QUIC. Nothing outside this package can tell.
package link
