package disklog

import (
	"crypto/ed25519"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/pilotgo/pilotgo/protocol"
)

// identity is the key that clients pin, and how it follows from those before.
type identity struct {
	key   ed25519.PrivateKey
	chain []protocol.Succession
}

func identityRow(id identity) []byte {
	b := append([]byte{rowFormat}, id.key.Seed()...)
	for _, s := range id.chain {
		b = append(b, s.Old...)
		b = append(b, s.New...)
		b = append(b, s.Signature...)
	}
	return b
}

func parseIdentity(row []byte) (id identity, err error) {
	r, err := openRow(row)
	if err != nil {
		return id, err
	}
	seed := r.take(ed25519.SeedSize)
	for len(r.b) > 0 && r.err == nil {
		id.chain = append(id.chain, protocol.Succession{
			Old:       slices.Clone(r.take(ed25519.PublicKeySize)),
			New:       slices.Clone(r.take(ed25519.PublicKeySize)),
			Signature: slices.Clone(r.take(ed25519.SignatureSize)),
		})
	}
	if r.err != nil {
		return identity{}, r.err
	}
	id.key = ed25519.NewKeyFromSeed(seed)
	return id, nil
}

// Key is the identity key of the log, nil while it has none. It lies in the
// folder as it is: who can read the folder can pass for this registry.
func (l *Log) Key() ed25519.PrivateKey {
	l.writing.Lock()
	defer l.writing.Unlock()
	return slices.Clone(l.identity.key)
}

// Successions lead from the keys that the log had before to the one it has.
func (l *Log) Successions() []protocol.Succession {
	l.writing.Lock()
	defer l.writing.Unlock()
	return slices.Clone(l.identity.chain)
}

// SetKey gives the log an identity key, for good once it returns. The key that
// it had before signs the new one as its successor, so that clients who pinned
// it follow; of more than protocol.MaxSuccessions the oldest are forgotten.
func (l *Log) SetKey(key ed25519.PrivateKey) error {
	if len(key) != ed25519.PrivateKeySize {
		return protocol.Errorf(protocol.ErrInvalid, "a key of %d bytes", len(key))
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.writable(); err != nil {
		return err
	}
	if key.Equal(l.identity.key) {
		return nil
	}
	next := identity{key: slices.Clone(key), chain: slices.Clone(l.identity.chain)}
	if l.identity.key != nil {
		next.chain = append(next.chain, protocol.SignSuccession(l.identity.key, key.Public().(ed25519.PublicKey)))
		next.chain = next.chain[max(0, len(next.chain)-protocol.MaxSuccessions):]
	}
	if err := l.setIdentity(next); err != nil {
		return err
	}
	l.identity = next
	return nil
}

func (l *Log) setIdentity(id identity) error {
	return l.set(func(rows *pebble.Batch) error { return rows.Set(keyIdentity, identityRow(id), nil) })
}

// set writes rows that are no part of the view. It is called with writing held.
func (l *Log) set(f func(rows *pebble.Batch) error) error {
	rows := l.db.NewBatch()
	if err := f(rows); err != nil {
		return err
	}
	return l.committer.set(rows)
}
