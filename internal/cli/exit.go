package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// The exit codes of the commands that pilotctl does not have. Those that it has
// exit 0 or 1, and 2 for a command line without a command.
const (
	exitOK             = 0
	exitError          = 1
	exitUsage          = 2
	exitNotConnected   = 10
	exitTimeout        = 11
	exitConflict       = 12
	exitStale          = 13
	exitUnknownOutcome = 14
	exitRefused        = 15
	exitInvalid        = 16
	exitThreshold      = 17
	exitNotElected     = 18
)

// exitCodes says what each code means, for help and `context`.
var exitCodes = []struct {
	code    int
	meaning string
}{
	{exitOK, "done"},
	{exitError, "any other error; every error of a command that pilotctl has"},
	{exitUsage, "the command line makes no sense"},
	{exitNotConnected, "no connection to the registry"},
	{exitTimeout, "no answer in time"},
	{exitConflict, "somebody else wrote first"},
	{exitStale, "a higher term was accepted, or this node does not lead"},
	{exitUnknownOutcome, "whether it was done cannot be told"},
	{exitRefused, "the registry refused"},
	{exitInvalid, "the document is not valid"},
	{exitThreshold, "below the threshold"},
	{exitNotElected, "never elected"},
}

// The codes that only this side makes. The others are protocol.Code's names.
const (
	codeUsage       = "invalid_argument"
	codeInterrupted = "interrupted"
	codeIO          = "io_error"
)

// failure is an error as the command line shows it.
type failure struct {
	code    string
	message string
	hint    string
	exit    int // of a new command; 0 = by code
	retry   time.Duration
	cause   error
}

func (f *failure) Error() string { return f.message }
func (f *failure) Unwrap() error { return f.cause }

func usagef(format string, args ...any) *failure {
	return &failure{code: codeUsage, message: fmt.Sprintf(format, args...), exit: exitUsage}
}

// describe makes a failure of any error.
func describe(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f.wrapped(err)
	}
	f = &failure{code: protocol.ErrInternal.Name(), message: err.Error(), exit: exitError, cause: err}
	var path *fs.PathError
	var dns *net.DNSError
	switch code := protocol.CodeOf(err); {
	case errors.As(err, &dns) && dns.IsNotFound:
		f.code, f.exit = protocol.ErrNotFound.Name(), exitNotConnected
		f.hint = "check the name, or give it an address: PILOTGO_HOSTS=" + dns.Name + "=ADDRESS"
	case code != protocol.ErrInternal:
		f.code, f.hint, f.exit = code.Name(), code.Hint(), exitOf(code)
		f.retry = retryAfter(err)
	case errors.Is(err, context.DeadlineExceeded):
		f.code, f.exit = protocol.ErrTimeout.Name(), exitTimeout
		f.message = protocol.ErrTimeout.Error()
	case errors.Is(err, context.Canceled):
		f.code, f.message = codeInterrupted, "interrupted"
	case errors.Is(err, errors.ErrUnsupported):
		f.code, f.exit = protocol.ErrUnsupported.Name(), exitUsage
	case errors.As(err, &path):
		f.code, f.hint = codeIO, "see that it exists, may be used, and has room on its disk"
	}
	swarmFailure(f, err)
	if own := hintOf(err); own != "" {
		f.hint = own
	}
	return f
}

// unsure is the error of a change that was asked for, and may have been made when
// nobody was there any more to hear so.
func unsure(what string, err error) error {
	if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		return err
	}
	f := describe(protocol.Errorf(protocol.ErrUnknownOutcome, "no answer in time to whether %s", what))
	f.hint = "see whether it is so before asking for it again"
	return f
}

// hintOf is what an error itself says to do, which knows more than its code does.
func hintOf(err error) string {
	var e interface {
		error
		Hint() string
	}
	if !errors.As(err, &e) {
		return ""
	}
	if _, general := e.(protocol.Code); general {
		return ""
	}
	return e.Hint()
}

// wrapped keeps what was put around a failure on its way.
func (f *failure) wrapped(err error) *failure {
	g := *f
	g.message = err.Error()
	return &g
}

func retryAfter(err error) time.Duration {
	var e *protocol.Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}

func exitOf(code protocol.Code) int {
	switch code {
	case protocol.ErrNotConnected, protocol.ErrDraining, protocol.ErrWrongKey, protocol.ErrVersion:
		return exitNotConnected
	case protocol.ErrTimeout:
		return exitTimeout
	case protocol.ErrConflict:
		return exitConflict
	case protocol.ErrStaleTerm, protocol.ErrWrongEpoch:
		return exitStale
	case protocol.ErrUnknownOutcome:
		return exitUnknownOutcome
	case protocol.ErrDenied, protocol.ErrNotAdmitted, protocol.ErrNodeIDTaken, protocol.ErrRateLimited,
		protocol.ErrStorageFull, protocol.ErrLimit, protocol.ErrTooLarge, protocol.ErrKeyReused:
		return exitRefused
	case protocol.ErrInvalid, protocol.ErrInvalidTopic, protocol.ErrInvalidPattern, protocol.ErrUnsupported:
		return exitUsage
	default:
		return exitError
	}
}
