package integration

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry/jetlog"
)

// selfSigned is a certificate for 127.0.0.1 and what trusts it.
func selfSigned(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "nats"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func TestJetLogWithTLSAndNKey(t *testing.T) {
	cert, pool := selfSigned(t)
	// The user's key made of 32 zero bytes.
	const (
		public = "UA5WUJ54Z23KILLCUOUNAKTPBVZWKMQVO4O6EQ5GHLAERIMLLHNCTYM5"
		seed   = "SUAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAEQ"
	)
	file := filepath.Join(t.TempDir(), "user.nk")
	require.NoError(t, os.WriteFile(file, []byte(seed), 0o600))

	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
		TLS: true, TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}}, TLSTimeout: 5,
		Nkeys: []*server.NkeyUser{{Nkey: public}},
	})
	require.NoError(t, err)
	s.Start()
	t.Cleanup(s.Shutdown)
	require.True(t, s.ReadyForConnections(10*time.Second))
	url := fmt.Sprint("tls://", s.Addr())

	l := &writer{t: t, id: 1, log: openAt(t, url, jetlog.Options{NKey: file, TLS: &tls.Config{RootCAs: pool}})}
	require.NoError(t, l.append(1))
	for name, o := range map[string]jetlog.Options{
		"no key":     {TLS: &tls.Config{RootCAs: pool}},
		"no root":    {NKey: file},
		"no file":    {NKey: file + "x", TLS: &tls.Config{RootCAs: pool}},
		"no creds":   {Creds: file + "x", TLS: &tls.Config{RootCAs: pool}},
		"bad stream": {Stream: "a.b"},
	} {
		_, err := jetlog.Open(t.Context(), url, o)
		require.Error(t, err, name)
		require.NotEqual(t, protocol.ErrInternal, protocol.CodeOf(err), "%s: %v", name, err)
	}
}
