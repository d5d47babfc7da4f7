package link

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/quic-go/quic-go"
)

// failure is a typed error that also wraps its cause from below. Causes that
// come from QUIC are not wrapped: they all claim to be net.ErrClosed, which
// here means that this side closed.
type failure struct {
	typed *protocol.Error
	cause error
}

func (f *failure) Error() string   { return f.typed.Error() }
func (f *failure) Unwrap() []error { return []error{f.typed, f.cause} }

func caused(code protocol.Code, cause error, format string, args ...any) error {
	return &failure{typed: protocol.Errorf(code, format, args...), cause: cause}
}

func errClosed(what string) error {
	return caused(protocol.ErrClosed, net.ErrClosed, "%s", what)
}

// maxText bounds the text of a close in both directions. It must fit into one
// packet.
const maxText = 512

// cleanText makes a text fit to be sent or shown: valid, short, without control
// characters, which could steer a terminal.
func cleanText(s string) string {
	if len(s) > maxText {
		s = s[:maxText]
		for len(s) > 0 && !utf8.ValidString(s[len(s)-1:]) && !utf8.RuneStart(s[len(s)-1]) {
			s = s[:len(s)-1]
		}
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, ""))
}

// Alerts of TLS (RFC 8446 §6), as they arrive in QUIC's crypto errors.
const (
	cryptoError           = quic.TransportErrorCode(0x100)
	noApplicationProtocol = cryptoError + 120
	protocolVersion       = cryptoError + 70
)

// sessionError says in the protocol's terms why a session ended.
func sessionError(err error) error {
	var (
		known     *failure
		typed     *protocol.Error
		app       *quic.ApplicationError
		transport *quic.TransportError
		idle      *quic.IdleTimeoutError
		handshake *quic.HandshakeTimeoutError
		reset     *quic.StatelessResetError
		version   *quic.VersionNegotiationError
	)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return known
	case errors.As(err, &typed):
		return typed
	case errors.As(err, &app):
		return applicationError(app)
	case errors.As(err, &transport):
		return transportError(transport)
	case errors.As(err, &idle):
		return protocol.Errorf(protocol.ErrNotConnected, "the peer has gone silent")
	case errors.As(err, &handshake):
		return protocol.Errorf(protocol.ErrTimeout, "the handshake took too long")
	case errors.As(err, &reset):
		return protocol.Errorf(protocol.ErrNotConnected, "the peer has restarted")
	case errors.As(err, &version):
		return protocol.Errorf(protocol.ErrVersion, "no QUIC version in common")
	case errors.Is(err, quic.ErrTransportClosed), errors.Is(err, quic.ErrServerClosed):
		return transportClosed(err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return caused(protocol.ErrNotConnected, err, "%v", err)
}

// ErrPeerClosed is behind the error of a session that the peer has closed without
// a fault.
var ErrPeerClosed = errors.New("closed by the peer")

func applicationError(e *quic.ApplicationError) error {
	if !e.Remote {
		return errClosed("session closed")
	}
	text := cleanText(e.ErrorMessage)
	switch code := protocol.Code(e.ErrorCode); code {
	case 0, protocol.ErrClosed:
		// ErrClosed tells that this side closed, which it did not.
		if text == "" {
			text = ErrPeerClosed.Error()
		}
		return caused(protocol.ErrNotConnected, ErrPeerClosed, "%s", text)
	default:
		return protocol.Errorf(code, "%s", text)
	}
}

func transportError(e *quic.TransportError) error {
	side := "here"
	if e.Remote {
		side = "by the peer"
	}
	text := cleanText(e.Error())
	switch code := e.ErrorCode; {
	case code == noApplicationProtocol, code == protocolVersion:
		return protocol.Errorf(protocol.ErrVersion, "refused %s: %s", side, text)
	case code >= cryptoError && code < cryptoError+0x100:
		return protocol.Errorf(protocol.ErrNotConnected, "handshake refused %s: %s", side, text)
	case code == quic.ConnectionRefused:
		return protocol.Errorf(protocol.ErrNotConnected, "the peer takes no more sessions")
	case code == quic.NoError, code == quic.ApplicationErrorErrorCode:
		return protocol.Errorf(protocol.ErrNotConnected, "closed %s", side)
	case code == quic.InternalError:
		return protocol.Errorf(protocol.ErrInternal, "%s: %s", side, text)
	}
	return protocol.Errorf(protocol.ErrMalformed, "%s: %s", side, text)
}

// transportClosed tells a socket that failed from one that was given back.
func transportClosed(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && !errors.Is(op.Err, net.ErrClosed) {
		return caused(protocol.ErrNotConnected, op, "%v", op)
	}
	return errClosed("socket closed")
}

// channelError says in the protocol's terms why a channel's read or write
// failed.
func channelError(err error) error {
	var (
		typed  *protocol.Error
		stream *quic.StreamError
	)
	switch {
	case err == nil, err == io.EOF: //nolint:errorlint // a clean end is io.EOF itself
		return err
	case errors.As(err, &typed):
		return err
	case errors.As(err, &stream):
		return streamError(stream)
	case errors.Is(err, quic.ErrStreamClosed):
		return errClosed("sending has ended")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return caused(protocol.ErrTimeout, os.ErrDeadlineExceeded, "no frame by the deadline")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return caused(protocol.ErrMalformed, io.ErrUnexpectedEOF, "channel ended inside a frame")
	}
	return sessionError(err)
}

func streamError(e *quic.StreamError) error {
	if !e.Remote {
		return errClosed("channel reset")
	}
	switch code := protocol.Code(e.ErrorCode); code {
	case 0, protocol.ErrClosed:
		return protocol.Errorf(protocol.ErrNotConnected, "channel ended by the peer")
	default:
		return protocol.Errorf(code, "channel reset by the peer")
	}
}
