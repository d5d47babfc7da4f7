package link

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/pilotgo/pilotgo/internal/statefile"
)

// Tickets keeps what resumes a session, by opaque keys of lower-case hex. What
// it keeps is as secret as an identity for some days. Losing it costs nothing
// but a full handshake, so it reports no errors. Its methods may be called from
// any goroutine and must be quick: the session waits for them.
type Tickets interface {
	Get(key string) []byte // nil is none
	Put(key string, ticket []byte)
	Drop(key string)
}

// ticketKey makes sure that a ticket is used for the same registry key, own key
// and address only: with a ticket of another identity the registry would go on
// seeing that one.
func ticketKey(own ed25519.PublicKey, registry, addr string) string {
	h := sha256.New()
	for _, part := range []string{string(own), registry, addr} {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(part))))
		h.Write([]byte(part))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// ticketCache is a Tickets as crypto/tls wants it, for one dial.
type ticketCache struct {
	tickets Tickets
	get     string        // key to look up before the registry's key is known
	put     func() string // key to store under once it is
}

func (c ticketCache) Get(string) (*tls.ClientSessionState, bool) {
	b := c.tickets.Get(c.get)
	if b == nil {
		return nil, false
	}
	cs, err := parseTicket(b)
	if err != nil {
		c.tickets.Drop(c.get)
		return nil, false
	}
	return cs, true
}

// Put is called with nil for a ticket that did not work.
func (c ticketCache) Put(_ string, cs *tls.ClientSessionState) {
	if cs == nil {
		c.tickets.Drop(c.get)
		return
	}
	if b, err := appendTicket(nil, cs); err == nil {
		c.tickets.Put(c.put(), b)
	}
}

// A stored ticket is this text, the SHA-256 of the rest, the length of the
// ticket, the ticket, the state. A state with a flipped bit would make the
// registry refuse the whole handshake, so it must be seen here.
const ticketText = "pilotgo ticket 1\n"

func appendTicket(b []byte, cs *tls.ClientSessionState) ([]byte, error) {
	ticket, state, err := cs.ResumptionState()
	if err != nil {
		return nil, err
	}
	kept, err := state.Bytes()
	if err != nil {
		return nil, err
	}
	rest := binary.BigEndian.AppendUint32(nil, uint32(len(ticket)))
	rest = slices.Concat(rest, ticket, kept)
	sum := sha256.Sum256(rest)
	return slices.Concat(b, []byte(ticketText), sum[:], rest), nil
}

func parseTicket(b []byte) (*tls.ClientSessionState, error) {
	b, ok := bytes.CutPrefix(b, []byte(ticketText))
	if !ok || len(b) < sha256.Size+4 {
		return nil, os.ErrInvalid
	}
	sum, rest := b[:sha256.Size], b[sha256.Size:]
	n := binary.BigEndian.Uint32(rest)
	if have := sha256.Sum256(rest); !bytes.Equal(have[:], sum) || uint64(n) > uint64(len(rest)-4) {
		return nil, os.ErrInvalid
	}
	state, err := tls.ParseSessionState(rest[4+n:])
	if err != nil {
		return nil, err
	}
	return tls.NewResumptionState(rest[4:4+n], state)
}

// maxTickets bounds each store; the oldest ticket goes first.
const maxTickets = 64

// MemoryTickets are for a client that lives long.
func MemoryTickets() Tickets { return &memoryTickets{kept: make(map[string][]byte)} }

type memoryTickets struct {
	mu    sync.Mutex
	kept  map[string][]byte
	order []string // oldest first
}

func (m *memoryTickets) Get(key string) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.kept[key]
}

func (m *memoryTickets) Put(key string, ticket []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(key)
	m.kept[key] = ticket
	m.order = append(m.order, key)
	if len(m.order) > maxTickets {
		m.drop(m.order[0])
	}
}

func (m *memoryTickets) Drop(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(key)
}

func (m *memoryTickets) drop(key string) {
	delete(m.kept, key)
	m.order = slices.DeleteFunc(m.order, func(k string) bool { return k == key })
}

// FileTickets keeps tickets as files in a folder of their own, for commands
// that run once. The folder is made with the first one.
func FileTickets(dir string) Tickets { return fileTickets(dir) }

type fileTickets string

const ticketSuffix = ".ticket"

func (d fileTickets) path(key string) string { return filepath.Join(string(d), key+ticketSuffix) }

func (d fileTickets) Get(key string) []byte {
	b, err := readPrivate(d.path(key))
	if err != nil {
		return nil
	}
	return b
}

func (d fileTickets) Put(key string, ticket []byte) {
	if os.MkdirAll(string(d), 0o700) != nil {
		return
	}
	// Not synced: after a power cut a ticket that is empty is only dropped.
	if statefile.Replace(d.path(key), ticket, false) == nil {
		d.dropOldest()
	}
}

func (d fileTickets) Drop(key string) { os.Remove(d.path(key)) }

func (d fileTickets) dropOldest() {
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return
	}
	var kept []os.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), ticketSuffix) {
			kept = append(kept, info)
		}
	}
	slices.SortFunc(kept, func(a, b os.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, info := range kept[:max(0, len(kept)-maxTickets)] {
		os.Remove(filepath.Join(string(d), info.Name()))
	}
}
