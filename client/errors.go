package client

import (
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/pilotgo/pilotgo/protocol"
)

// errClosed is what calls get after Close.
var errClosed = fmt.Errorf("%w: %w", protocol.Errorf(protocol.ErrClosed, "client"), net.ErrClosed)

// hardCodes are errors that trying again does not mend by itself: calls that
// wait for a connection fail with them at once.
var hardCodes = []protocol.Code{
	protocol.ErrWrongKey, protocol.ErrNodeIDTaken, protocol.ErrNotAdmitted,
	protocol.ErrVersion, protocol.ErrDenied, protocol.ErrInvalid, protocol.ErrUnsupported,
	protocol.ErrWrongEpoch, // another log behind one of the addresses
}

func isHard(err error) bool { return slices.Contains(hardCodes, protocol.CodeOf(err)) }

// worst is the error to report of several tries: one that trying again does not
// mend, else the first.
func worst(errs []error) error {
	if i := slices.IndexFunc(errs, isHard); i >= 0 {
		return errs[i]
	}
	return errs[0]
}

// foreign hides net.ErrClosed in the error of a connection: to users it says
// that the Client was closed.
func foreign(err error) error {
	if errors.Is(err, net.ErrClosed) || errors.Is(err, protocol.ErrClosed) {
		return protocol.Errorf(protocol.ErrNotConnected, "%v", err)
	}
	return err
}
