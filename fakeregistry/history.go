package fakeregistry

import (
	"hash/maphash"
	"slices"
	"sync"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// history knows every message that was ever in the log, whatever retention has
// taken since. Each incarnation of the log is a chapter.
type history struct {
	max int // entries of a chapter, about

	mu       sync.Mutex
	chapters []*chapter
}

type chapter struct {
	epoch   protocol.Epoch
	entries []entry // seq rising
	cut     protocol.Seq
	slots   map[slot]protocol.Seq // the newest message of each
}

// entry is what the checker needs to know of a message.
type entry struct {
	seq      protocol.Seq
	sender   protocol.NodeID
	to       protocol.NodeID
	topic    string
	payload  uint64 // hash
	replaced bool   // by a later one in its slot
}

type slot struct {
	sender protocol.NodeID
	topic  string
	name   string
}

// seed is for all hashes of payloads in this process.
var seed = maphash.MakeSeed()

func hash(payload []byte) uint64 { return maphash.Bytes(seed, payload) }

// begin starts a chapter.
func (h *history) begin(e protocol.Epoch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.chapters = append(h.chapters, &chapter{epoch: e, slots: make(map[slot]protocol.Seq)})
}

// store remembers records once they are in the log. It holds the lock meanwhile,
// so that no reader who asks here has seen a message that is not known yet.
func (h *history) store(records []*registry.Record, put func() error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := put(); err != nil {
		return err
	}
	c := h.chapters[len(h.chapters)-1]
	for _, r := range records {
		c.add(r)
	}
	// In portions, or each message would move all the others.
	if over := len(c.entries) - h.max; over > h.max/4 {
		c.cut = c.entries[over-1].seq
		c.entries = slices.Delete(c.entries, 0, over)
	}
	return nil
}

func (c *chapter) add(r *registry.Record) {
	e := entry{seq: r.Seq, sender: r.Sender, to: r.To, topic: r.Topic, payload: hash(r.Payload)}
	if r.Slot != "" {
		slot := slot{r.Sender, r.Topic, r.Slot}
		if i, ok := c.find(c.slots[slot]); ok {
			c.entries[i].replaced = true
		}
		c.slots[slot] = r.Seq
	}
	c.entries = append(c.entries, e)
}

// find is the index of the first entry at or behind seq, and whether it is seq.
func (c *chapter) find(seq protocol.Seq) (int, bool) {
	return slices.BinarySearchFunc(c.entries, seq, func(e entry, seq protocol.Seq) int {
		return int(int64(e.seq) - int64(seq))
	})
}

// between lists the entries with a seq above after and up to upTo.
func (c *chapter) between(after, upTo protocol.Seq) []entry {
	from, _ := c.find(after + 1)
	to, _ := c.find(upTo + 1)
	return c.entries[from:max(from, to)]
}

// chapter finds one by its epoch; under mu. nth counts them from 0.
func (h *history) chapter(id protocol.EpochID) (c *chapter, nth int) {
	nth = slices.IndexFunc(h.chapters, func(c *chapter) bool { return c.epoch.ID == id })
	if nth < 0 {
		return nil, nth
	}
	return h.chapters[nth], nth
}

// topic is that of a message of the newest chapter.
func (h *history) topic(seq protocol.Seq) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.chapters[len(h.chapters)-1]
	if i, ok := c.find(seq); ok {
		return c.entries[i].topic
	}
	return ""
}
