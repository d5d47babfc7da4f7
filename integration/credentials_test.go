package integration_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/protocol"
)

// authority signs certificates; its files are in a folder.
type authority struct {
	t    *testing.T
	dir  string
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	file string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key, a.file, _ = a.make("authority")
	return a
}

// make makes a certificate for 127.0.0.1, of itself where the authority has none,
// and returns the files too.
func (a *authority) make(name string) (cert *x509.Certificate, key *ecdsa.PrivateKey, certFile, keyFile string) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	is := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true, IsCA: a.cert == nil,
	}
	by, with := a.cert, a.key
	if by == nil {
		by, with = is, key
	}
	der, err := x509.CreateCertificate(rand.Reader, is, by, &key.PublicKey, with)
	require.NoError(a.t, err)
	cert, err = x509.ParseCertificate(der)
	require.NoError(a.t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(a.t, err)
	write := func(file, kind string, b []byte) string {
		path := filepath.Join(a.dir, file)
		require.NoError(a.t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600))
		return path
	}
	return cert, key, write(name+".pem", "CERTIFICATE", der), write(name+".key", "PRIVATE KEY", secret)
}

// trusting is a NATS server that takes users of an operator's accounts, over TLS
// with certificates on both sides.
type trusting struct {
	t       *testing.T
	s       *server.Server
	signer  nkeys.KeyPair // of the operator
	account nkeys.KeyPair
	claims  *jwt.AccountClaims
	of      *server.MemAccResolver
}

func newTrusting(t *testing.T, a *authority) *trusting {
	t.Helper()
	o := &trusting{t: t, signer: keys(t, nkeys.CreateOperator), account: keys(t, nkeys.CreateAccount), of: &server.MemAccResolver{}}
	o.claims = jwt.NewAccountClaims(public(t, o.account))
	o.claims.Limits.JetStreamLimits = jwt.JetStreamLimits{DiskStorage: -1, MemoryStorage: -1, Streams: -1, Consumer: -1}
	o.tell(o.claims)
	system := jwt.NewAccountClaims(public(t, keys(t, nkeys.CreateAccount)))
	o.tell(system)
	operator := jwt.NewOperatorClaims(public(t, o.signer))
	operator.SystemAccount = system.Subject

	_, _, certFile, keyFile := a.make("server")
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	o.s, err = server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
		SystemAccount: system.Subject, TrustedOperators: []*jwt.OperatorClaims{operator}, AccountResolver: o.of,
		TLS: true, TLSVerify: true, TLSTimeout: 5,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert},
	})
	require.NoError(t, err)
	o.s.Start()
	t.Cleanup(func() {
		o.s.Shutdown()
		o.s.WaitForShutdown()
	})
	require.True(t, o.s.ReadyForConnections(10*time.Second))
	return o
}

func keys(t *testing.T, create func() (nkeys.KeyPair, error)) nkeys.KeyPair {
	t.Helper()
	k, err := create()
	require.NoError(t, err)
	return k
}

func public(t *testing.T, k nkeys.KeyPair) string {
	t.Helper()
	text, err := k.PublicKey()
	require.NoError(t, err)
	return text
}

// tell makes an account known as it is now.
func (o *trusting) tell(c *jwt.AccountClaims) {
	o.t.Helper()
	text, err := c.Encode(o.signer)
	require.NoError(o.t, err)
	require.NoError(o.t, o.of.Store(c.Subject, text))
	if o.s == nil {
		return
	}
	account, err := o.s.LookupAccount(c.Subject)
	require.NoError(o.t, err)
	o.s.UpdateAccountClaims(account, c)
}

// user makes a user of an account, and the file with the credentials.
func (o *trusting) user(account nkeys.KeyPair) (name, file string) {
	o.t.Helper()
	k := keys(o.t, nkeys.CreateUser)
	text, err := jwt.NewUserClaims(public(o.t, k)).Encode(account)
	require.NoError(o.t, err)
	seed, err := k.Seed()
	require.NoError(o.t, err)
	creds, err := jwt.FormatUserConfig(text, seed)
	require.NoError(o.t, err)
	file = filepath.Join(o.t.TempDir(), "user.creds")
	require.NoError(o.t, os.WriteFile(file, creds, 0o600))
	return public(o.t, k), file
}

// A registry comes to its log with a user's JWT and a certificate. With wrong ones
// it does not start, and says which to look at. When the user is revoked it takes
// nothing more and says so, and goes on once the user is allowed again.
func TestCredentialsForTheCluster(t *testing.T) {
	ours, others := newAuthority(t), newAuthority(t)
	o := newTrusting(t, ours)
	name, creds := o.user(o.account)
	_, _, cert, key := ours.make("registry")
	store := "--store=tls://" + o.s.Addr().String()
	right := []string{store, "--store-creds", creds, "--store-ca", ours.file, "--store-cert", cert, "--store-key", key}

	poor := jwt.NewAccountClaims(public(t, keys(t, nkeys.CreateAccount)))
	poorKeys := keys(t, nkeys.CreateAccount)
	poor.Subject = public(t, poorKeys)
	o.tell(poor)
	_, poorUser := o.user(poorKeys)
	_, stranger := o.user(keys(t, nkeys.CreateAccount))
	_, _, otherCert, otherKey := others.make("registry")
	junk := filepath.Join(t.TempDir(), "junk")
	require.NoError(t, os.WriteFile(junk, []byte("junk"), 0o600))
	for _, test := range []struct {
		name string
		args []string // later ones count
		exit int
		hint string
	}{
		{"no credentials", []string{"--store-creds="}, 15, "--store-creds"},
		{"a stranger's", []string{"--store-creds", stranger}, 15, "--store-creds"},
		{"of an account without JetStream", []string{"--store-creds", poorUser}, 2, "limits in the account's JWT"},
		{"no such file", []string{"--store-creds", junk + "x"}, 2, "nsc generate creds"},
		{"no credentials in the file", []string{"--store-creds", junk}, 2, "nsc generate creds"},
		{"no certificate", []string{"--store-cert=", "--store-key="}, 15, "--store-cert"},
		{"another authority's certificate", []string{"--store-cert", otherCert, "--store-key", otherKey}, 15, "--store-cert"},
		{"server of another authority", []string{"--store-ca", others.file}, 15, "--store-ca"},
		{"no such authority", []string{"--store-ca", junk + "x"}, 2, "--store-ca"},
		{"no certificate in the file", []string{"--store-ca", junk}, 2, "has no certificate"},
		{"certificate without key", []string{"--store-key="}, 2, "--store-key"},
		{"another's key", []string{"--store-key", otherKey}, 2, "--store-key"},
	} {
		t.Run(test.name, func(t *testing.T) {
			args := append([]string{"registry", "serve", "--listen", "127.0.0.1:0"}, right...)
			cmd := exec.CommandContext(t.Context(), program(t, "pilotgo-registry"), append(args, test.args...)...)
			cmd.Env = append(os.Environ(), "PILOT_HOME="+t.TempDir())
			var said bytes.Buffer
			cmd.Stderr = &said
			require.Error(t, cmd.Run())
			require.Equal(t, test.exit, cmd.ProcessState.ExitCode(), "%s", said.String())
			require.Contains(t, said.String(), test.hint)
		})
	}

	page := operatorsPage(t)
	p := registryProcess(t, append(right, page.flags()...)...)
	c := p.dial("publisher")
	put(t, c, "jobs", "before")
	o.claims.Revoke(name)
	o.tell(o.claims)
	first := c.Publish(t.Context(), client.Publication{Topic: "jobs", Payload: []byte("while revoked")})
	var says string
	require.Eventually(t, func() bool {
		var ok bool
		ok, says = page.ready()
		return !ok
	}, 30*time.Second, 100*time.Millisecond)
	t.Logf("not ready: %s", says)
	require.Equal(t, []string{"before"}, published(t, p.dial("reader"), "jobs"), "reading goes on")
	delete(o.claims.Revocations, name)
	o.tell(o.claims)
	_, err := first.Wait(t.Context())
	require.NoError(t, err)
	put(t, c, "jobs", "after")
	require.Equal(t, []string{"before", "while revoked", "after"}, published(t, c, "jobs"))

	// Credentials that were replaced are read at the next connection.
	_, fresh := o.user(o.account)
	text, err := os.ReadFile(fresh)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(creds, text, 0o600))
	o.claims.Revoke(name)
	o.tell(o.claims)
	put(t, c, "jobs", "with new ones")
	require.Equal(t, protocol.Seq(4), put(t, c, "jobs", "last")-1)
	p.kill()
	require.Contains(t, p.stderr.String(), "the credentials are not taken")
}
