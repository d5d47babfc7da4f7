package link

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"

	"github.com/pilotgo/pilotgo/internal/statefile"
	"github.com/pilotgo/pilotgo/protocol"
)

// Pins remembers which key each registry host has, by its name in lower case.
// Its methods may be called from any goroutine.
type Pins interface {
	// Lookup gives the fingerprint pinned for a host.
	Lookup(host string) (fingerprint string, ok bool, err error)

	// Remember pins the key of a host that has none. It is ErrWrongKey if
	// another key is pinned by now. It waits for other processes only until ctx
	// ends, and so does Follow.
	Remember(ctx context.Context, host string, key ed25519.PublicKey) error

	// Follow replaces the pin old of a host after a succession. It does
	// nothing if the pin is not old any more.
	Follow(ctx context.Context, host, old string, key ed25519.PublicKey) error

	// Forget drops the pin of a host and reports whether there was one.
	Forget(host string) (bool, error)

	// List gives all pins by host.
	List() ([]Pin, error)
}

// Pin is the key that a host must prove.
type Pin struct{ Host, Fingerprint string }

// pinned is what both kinds of Pins do, by host.
type pinned map[string]string

func (p pinned) remember(host string, key ed25519.PublicKey) error {
	have, ok := p[host]
	if ok && have != Fingerprint(key) {
		return wrongKey(host, key, have)
	}
	p[host] = Fingerprint(key)
	return nil
}

func (p pinned) follow(host, old string, key ed25519.PublicKey) {
	if p[host] == old {
		p[host] = Fingerprint(key)
	}
}

func (p pinned) list() []Pin {
	pins := make([]Pin, 0, len(p))
	for _, host := range slices.Sorted(maps.Keys(p)) {
		pins = append(pins, Pin{host, p[host]})
	}
	return pins
}

func wrongKey(host string, key ed25519.PublicKey, pinned string) error {
	return protocol.Errorf(protocol.ErrWrongKey, "%s has %s, pinned is %s", host, Fingerprint(key), pinned)
}

// MemoryPins are forgotten with the process.
func MemoryPins() Pins { return &memoryPins{pins: make(pinned)} }

type memoryPins struct {
	mu   sync.Mutex
	pins pinned
}

func (m *memoryPins) Lookup(host string) (string, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fp, ok := m.pins[host]
	return fp, ok, nil
}

func (m *memoryPins) Remember(_ context.Context, host string, key ed25519.PublicKey) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pins.remember(host, key)
}

func (m *memoryPins) Follow(_ context.Context, host, old string, key ed25519.PublicKey) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pins.follow(host, old, key)
	return nil
}

func (m *memoryPins) Forget(host string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.pins[host]
	delete(m.pins, host)
	return ok, nil
}

func (m *memoryPins) List() ([]Pin, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pins.list(), nil
}

// FilePins keeps pins in a JSON file, which is read anew at each call, so that
// processes see each other's. It is made when the first key is remembered. A
// file that cannot be read as pins is ErrInvalid and is left alone: without it
// nothing tells a changed key.
func FilePins(path string) Pins { return filePins(path) }

type filePins string

// pinFile is the content of the file.
type pinFile struct {
	Registries pinned `json:"registries"`
}

func (p filePins) Lookup(host string) (string, bool, error) {
	pins, err := p.load()
	fp, ok := pins[host]
	return fp, ok, err
}

func (p filePins) Remember(ctx context.Context, host string, key ed25519.PublicKey) error {
	return p.update(ctx, func(pins pinned) error { return pins.remember(host, key) })
}

func (p filePins) Follow(ctx context.Context, host, old string, key ed25519.PublicKey) error {
	return p.update(ctx, func(pins pinned) error {
		pins.follow(host, old, key)
		return nil
	})
}

func (p filePins) Forget(host string) (ok bool, err error) {
	err = p.update(context.Background(), func(pins pinned) error {
		_, ok = pins[host]
		delete(pins, host)
		return nil
	})
	return ok, err
}

func (p filePins) List() ([]Pin, error) {
	pins, err := p.load()
	return pins.list(), err
}

func (p filePins) load() (pinned, error) {
	b, err := readPrivate(string(p))
	if errors.Is(err, fs.ErrNotExist) {
		return make(pinned), nil
	}
	if err != nil {
		return nil, fmt.Errorf("known registries: %w", err)
	}
	var f pinFile
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, p.corrupt(err)
	}
	for host, fp := range f.Registries {
		if _, err := ParseFingerprint(fp); err != nil {
			return nil, p.corrupt(fmt.Errorf("host %q: %w", host, err))
		}
	}
	if f.Registries == nil {
		return nil, p.corrupt(errors.New("no registries in it"))
	}
	return f.Registries, nil
}

func (p filePins) corrupt(err error) error {
	return protocol.Errorf(protocol.ErrInvalid,
		"%s is damaged (%v); repair it, or move it away to pin every registry anew", string(p), err)
}

// update changes the file under its lock; a change that changes nothing writes
// nothing.
func (p filePins) update(ctx context.Context, change func(pinned) error) error {
	unlock, err := lock(ctx, string(p))
	if err != nil {
		return fmt.Errorf("known registries: %w", err)
	}
	defer unlock()
	pins, err := p.load()
	if err != nil {
		return err
	}
	before := maps.Clone(pins)
	if err := change(pins); err != nil {
		return err
	}
	if maps.Equal(before, pins) {
		return nil
	}
	b, err := json.MarshalIndent(pinFile{pins}, "", "  ")
	if err != nil {
		return err
	}
	if err := statefile.Replace(string(p), append(b, '\n'), true); err != nil {
		return fmt.Errorf("known registries: %w", err)
	}
	return nil
}
