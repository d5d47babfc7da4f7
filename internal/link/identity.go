package link

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pilotgo/pilotgo/internal/statefile"
	"github.com/pilotgo/pilotgo/protocol"
)

// Identity is the Ed25519 key pair of a node or a registry.
type Identity struct{ Key ed25519.PrivateKey }

// NewIdentity makes a key from the system's random source.
func NewIdentity() Identity {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err) // crypto/rand ends the process rather than fail
	}
	return Identity{key}
}

// Public is the public key.
func (id Identity) Public() ed25519.PublicKey { return id.Key.Public().(ed25519.PublicKey) }

// NodeID is the node id that the key gives.
func (id Identity) NodeID() protocol.NodeID { return protocol.NodeIDOf(id.Public()) }

// Fingerprint is "sha256:" and the key's SHA-256 in base64url without padding.
func Fingerprint(key ed25519.PublicKey) string { return protocol.KeyHashOf(key).String() }

// ParseFingerprint checks a text that Fingerprint printed and returns it
// without the space that pasting leaves around it. The error is ErrInvalid.
func ParseFingerprint(s string) (string, error) {
	hash, err := protocol.ParseKeyHash(s)
	if err != nil {
		return "", err
	}
	return hash.String(), nil
}

// LoadOrMakeIdentity is the key of the node whose home is pilotHome, the user's
// home directory if that is empty: Pilot's identity file where there is one,
// else pilotgo's own, made at the first call. Of calls that race, in one process
// or several, all return the same key. A file that cannot be used is an error,
// ErrInvalid if its content is the reason, and is never written over.
func LoadOrMakeIdentity(pilotHome string) (Identity, error) {
	if pilotHome == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return Identity{}, fmt.Errorf("identity: %w", err)
		}
		pilotHome = home
	}
	pilot := filepath.Join(pilotHome, ".pilot", "identity.json")
	id, err := loadKeyFile(pilot)
	if !errors.Is(err, fs.ErrNotExist) {
		return id, err
	}
	return LoadOrMakeKeyFile(filepath.Join(pilotHome, ".pilot", "pilotgo", "identity.json"))
}

// LoadOrMakeKeyFile is LoadOrMakeIdentity for one file of the same format
// anywhere, such as a registry's key.
func LoadOrMakeKeyFile(path string) (Identity, error) {
	id, err := loadKeyFile(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return id, err
	}
	unlock, err := lock(context.Background(), path)
	if err != nil {
		return Identity{}, fmt.Errorf("make identity: %w", err)
	}
	defer unlock()
	id, err = loadKeyFile(path) // another one may have been faster
	if !errors.Is(err, fs.ErrNotExist) {
		return id, err
	}
	id = NewIdentity()
	if err := statefile.Replace(path, marshalKey(id), true); err != nil {
		return Identity{}, fmt.Errorf("make identity: %w", err)
	}
	return id, nil
}

// keyFile is Pilot's identity file.
type keyFile struct {
	Private []byte `json:"private_key"` // seed and public key, 64 bytes
	Public  []byte `json:"public_key"`
}

func marshalKey(id Identity) []byte {
	b, err := json.MarshalIndent(keyFile{id.Key, id.Public()}, "", "  ")
	if err != nil {
		panic(err) // byte slices always marshal
	}
	return append(b, '\n')
}

func loadKeyFile(path string) (Identity, error) {
	b, err := readPrivate(path)
	if err != nil {
		return Identity{}, fmt.Errorf("identity: %w", err)
	}
	id, err := parseKey(b)
	if err != nil {
		return Identity{}, protocol.Errorf(protocol.ErrInvalid, "identity file %s: %v; restore it, or move it away to become a new node", path, err)
	}
	return id, nil
}

func parseKey(b []byte) (Identity, error) {
	var f keyFile
	if err := json.Unmarshal(b, &f); err != nil {
		return Identity{}, err
	}
	if len(f.Private) != ed25519.PrivateKeySize || len(f.Public) != ed25519.PublicKeySize {
		return Identity{}, errors.New("keys are not 64 and 32 bytes")
	}
	key := ed25519.NewKeyFromSeed(f.Private[:ed25519.SeedSize])
	if !bytes.Equal(key, f.Private) || !bytes.Equal(f.Private[ed25519.SeedSize:], f.Public) {
		return Identity{}, errors.New("public and private key do not match")
	}
	return Identity{key}, nil
}
