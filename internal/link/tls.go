package link

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"slices"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// successionsID marks the certificate extension with the history of a
// registry's key: records of old key, new key and signature, nothing between.
// The number is made from a UUID, as ITU-T X.667 allows.
var successionsID = asn1.ObjectIdentifier{2, 25, 1735423318, 874002861, 1093741587}

const successionSize = 2*ed25519.PublicKeySize + ed25519.SignatureSize

// certificate wraps the identity's key for TLS. Nobody checks names, dates or
// the signature on it: the handshake proves the key, and only that counts.
func certificate(id Identity, chain []protocol.Succession) (tls.Certificate, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "pilotgo"},
		NotBefore:    time.Unix(0, 0),
		NotAfter:     time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), // "never" in RFC 5280
	}
	if len(chain) > 0 {
		template.ExtraExtensions = []pkix.Extension{{Id: successionsID, Value: appendSuccessions(nil, chain)}}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, id.Public(), id.Key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: id.Key}, nil
}

func appendSuccessions(b []byte, chain []protocol.Succession) []byte {
	for _, s := range chain {
		b = slices.Concat(b, s.Old, s.New, s.Signature)
	}
	return b
}

// successionsOf reads the history in a certificate. One that is malformed is
// none: its key then has to be the pinned one.
func successionsOf(cert *x509.Certificate) []protocol.Succession {
	i := slices.IndexFunc(cert.Extensions, func(e pkix.Extension) bool { return e.Id.Equal(successionsID) })
	if i < 0 {
		return nil
	}
	value := cert.Extensions[i].Value
	if len(value)%successionSize != 0 || len(value) > protocol.MaxSuccessions*successionSize {
		return nil
	}
	var chain []protocol.Succession
	for r := range slices.Chunk(value, successionSize) {
		chain = append(chain, protocol.Succession{Old: r[:32], New: r[32:64], Signature: r[64:]})
	}
	return chain
}

// checkSuccessions makes sure that a registry's history leads to its key.
func checkSuccessions(own ed25519.PublicKey, chain []protocol.Succession) error {
	if len(chain) > protocol.MaxSuccessions {
		return protocol.Errorf(protocol.ErrInvalid, "%d successions, maximum %d", len(chain), protocol.MaxSuccessions)
	}
	for i, s := range chain {
		if !s.Verify() || !protocol.Follows(s.Old, own, chain) {
			return protocol.Errorf(protocol.ErrInvalid, "succession %d does not lead to this registry's key", i+1)
		}
	}
	return nil
}

// provenKey is the key that the peer proved in the handshake, or in the one
// that the resumed session began with; nil if it is of another kind.
func provenKey(state tls.ConnectionState) ed25519.PublicKey {
	if len(state.PeerCertificates) == 0 {
		return nil
	}
	key, _ := state.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
	return key
}

func serverTLS(c Config) (*tls.Config, error) {
	cert, err := certificate(c.Identity, c.Successions)
	if err != nil {
		return nil, err
	}
	conf := &tls.Config{
		MinVersion:   tls.VersionTLS13,
		NextProtos:   []string{protocol.ALPN},
		Certificates: []tls.Certificate{cert},
		ClientAuth:   tls.RequireAnyClientCert,
		// Not VerifyPeerCertificate, which resumed handshakes skip.
		VerifyConnection: func(state tls.ConnectionState) error {
			if provenKey(state) == nil {
				return protocol.Errorf(protocol.ErrNotAdmitted, "the client proved no Ed25519 key")
			}
			return nil
		},
	}
	if c.TicketKey != [32]byte{} {
		conf.SetSessionTicketKeys([][32]byte{c.TicketKey})
	}
	return conf, nil
}

// clientTLS is for one dial. check sees the registry's key and its history.
func clientTLS(c Config, check func(ed25519.PublicKey, []protocol.Succession) error) (*tls.Config, error) {
	cert, err := certificate(c.Identity, nil)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: []string{protocol.ALPN},
		// The list of Certificates would be filtered by what the server asks for.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil },
		InsecureSkipVerify:   true, // names and dates mean nothing here; check does it
		// Not VerifyPeerCertificate, which resumed handshakes skip.
		VerifyConnection: func(state tls.ConnectionState) error {
			key := provenKey(state)
			if key == nil {
				return protocol.Errorf(protocol.ErrWrongKey, "the registry proved no Ed25519 key")
			}
			return check(key, successionsOf(state.PeerCertificates[0]))
		},
	}, nil
}
