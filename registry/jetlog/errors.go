package jetlog

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pilotgo/pilotgo/protocol"
)

// ClusterError says why a cluster cannot be used as it is asked to be. Code is
//
//   - protocol.ErrNotConnected: no server answers, or none that has JetStream;
//   - protocol.ErrNotAdmitted: the servers do not take these credentials;
//   - protocol.ErrDenied: they do, and forbid what a registry needs;
//   - protocol.ErrInvalid: what is asked for does not go with what is there;
//   - protocol.ErrStorageFull: there is no room for the streams.
type ClusterError struct {
	Code  protocol.Code
	Where string // the addresses, without passwords
	What  string
	Err   error // what NATS says

	hint string
}

// Error implements error.
func (e *ClusterError) Error() string {
	return fmt.Sprintf("NATS at %s: %s: %v", e.Where, e.What, e.Err)
}

// Hint says what to do.
func (e *ClusterError) Hint() string { return e.hint }

// Unwrap is the code, and what NATS says.
func (e *ClusterError) Unwrap() []error { return []error{e.Code, e.Err} }

// cause is one reason of many for which a cluster cannot be used.
type cause struct {
	code       protocol.Code
	what, hint string
}

var (
	noServer = cause{
		protocol.ErrNotConnected, "no server answers",
		"check the addresses, and that NATS servers run there and can be reached from here",
	}
	noJetStream = cause{
		protocol.ErrNotConnected, "JetStream does not answer",
		"run the servers with JetStream (nats-server -js, or jetstream {} in its configuration); of a cluster most must run, reach each other and have room",
	}
	noAccount = cause{
		protocol.ErrInvalid, "there is no JetStream for these credentials",
		"give their account JetStream: jetstream: enabled in the servers' configuration, or limits in the account's JWT; a system account has none",
	}
	notTaken = cause{
		protocol.ErrNotAdmitted, "the credentials are not taken",
		"check --store-creds, or user and password in the address, and that they are neither revoked nor expired",
	}
	forbidden = cause{
		protocol.ErrDenied, "the user may not do what a registry does",
		"allow the user to publish and subscribe to $JS.API.>, _INBOX.> and the streams' names with .> behind them",
	}
	badTLS = cause{
		protocol.ErrNotAdmitted, "no TLS session",
		"check --store-ca (who signed the servers' certificates, which must name the addresses), and --store-cert and --store-key where the servers ask for them",
	}
	noTLS = cause{
		protocol.ErrInvalid, "the servers do not speak TLS",
		"use nats:// addresses without --store-ca, --store-cert and --store-key, or give the servers TLS",
	}
	tooFewServers = cause{
		protocol.ErrInvalid, "there are not as many servers as the streams are to have replicas",
		"start more servers of the cluster, or ask for fewer replicas: --store-replicas 1",
	}
	noFile = cause{
		protocol.ErrInvalid, "the credentials cannot be used",
		"check the file: with --store-creds it is one that 'nsc generate creds' wrote",
	}
	refused = cause{
		protocol.ErrNotConnected, "JetStream refuses",
		"see what the servers' own log says",
	}
	noRoom = cause{
		protocol.ErrStorageFull, "there is no room for the streams",
		"raise the servers' max_file_store or the account's limits, or make room on their disks",
	}
)

// causes are of errors that have a code; what a server says before a connection is
// one has only its words.
var causes = []struct {
	is func(error) bool
	cause
}{
	{oneOf(nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired), notTaken},
	{says("authorization violation", "authentication", "nkeys not supported", "user jwt"), notTaken},
	{says("signing nonce", "nkeys:", "no user jwt", "extract key pair"), noFile},
	{oneOf(nats.ErrPermissionViolation), forbidden},
	{says("secure connection not available"), noTLS},
	{says("tls:", "tls error", "x509:", "secure connection required"), badTLS},
	{coded(codeNotEnabled, codeNotEnabledForAccount, codeAccount), noAccount},
	{coded(codeReplicas, codePeers), tooFewServers},
	{coded(codeExceeded, codeResources, codeStorage, codeMemory), noRoom},
	{oneOf(nats.ErrNoResponders, jetstream.ErrNoStreamResponse, context.DeadlineExceeded, nats.ErrTimeout), noJetStream},
	{coded(codeUnavailable), noJetStream},
}

func oneOf(list ...error) func(error) bool {
	return func(err error) bool {
		for _, e := range list {
			if errors.Is(err, e) {
				return true
			}
		}
		return false
	}
}

func says(list ...string) func(error) bool {
	return func(err error) bool {
		text := strings.ToLower(err.Error())
		for _, s := range list {
			if strings.Contains(text, s) {
				return true
			}
		}
		return false
	}
}

func coded(list ...jetstream.ErrorCode) func(error) bool {
	return func(err error) bool {
		code := errorCode(err)
		return slices.Contains(list, code)
	}
}

// Error codes of JetStream that package jetstream does not name.
const (
	codeExceeded             = 10002
	codePeers                = 10005
	codeUnavailable          = 10008
	codeResources            = 10023
	codeMemory               = 10028
	codeAccount              = 10035
	codeNotEnabledForAccount = 10039
	codeStorage              = 10047
	codeReplicas             = 10074
	codeNotEnabled           = 10076
	codeStoreFailed          = 10077
)

// unusable tells what an error of NATS means. Errors that have a code are left as
// they are.
func unusable(err error, urls string, otherwise cause) error {
	if err == nil || protocol.CodeOf(err) != protocol.ErrInternal || errors.Is(err, context.Canceled) {
		return err
	}
	var told *protocol.Error
	if errors.As(err, &told) {
		return err
	}
	c := otherwise
	for _, known := range causes {
		if known.is(err) {
			c = known.cause
			break
		}
	}
	return &ClusterError{Code: c.code, Where: places(urls), What: c.what, Err: err, hint: c.hint}
}

// places is addresses as they may be shown to anybody.
func places(urls string) string {
	var list []string
	for one := range strings.SplitSeq(urls, ",") {
		one = strings.TrimSpace(one)
		if u, err := url.Parse(one); err == nil && u.Host != "" {
			one = u.Scheme + "://" + u.Host
		} else if at := strings.LastIndex(one, "@"); at >= 0 {
			one = one[at+1:]
		}
		list = append(list, one)
	}
	return strings.Join(list, ", ")
}
