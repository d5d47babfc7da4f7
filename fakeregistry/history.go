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
	slot     slot   // zero when it has none
}

type slot struct {
	sender protocol.NodeID
	topic  string
	name   string
}

// seed is for all hashes of payloads in this process.
var seed = maphash.MakeSeed()

func hash(payload []byte) uint64 { return maphash.Bytes(seed, payload) }

// begin starts a chapter, or goes on with the last one after a restart that
// kept the log.
func (h *history) begin(e protocol.Epoch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.chapters); n > 0 && h.chapters[n-1].epoch.ID == e.ID {
		return
	}
	h.chapters = append(h.chapters, &chapter{epoch: e, slots: make(map[slot]protocol.Seq)})
}

// add is called before the log has the records, so that no reader is faster, and
// take if the log then refuses them.
func (h *history) add(records []*registry.Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.chapters[len(h.chapters)-1]
	for _, r := range records {
		c.add(r)
	}
	// In portions, or each message would move all the others.
	if over := len(c.entries) - h.max; over > h.max/4 {
		c.cut = c.entries[over-1].seq
		c.entries = slices.Delete(c.entries, 0, over)
	}
}

func (c *chapter) add(r *registry.Record) {
	e := entry{seq: r.Seq, sender: r.Sender, to: r.To, topic: r.Topic, payload: hash(r.Payload)}
	if r.Slot != "" {
		e.slot = slot{r.Sender, r.Topic, r.Slot}
		c.markReplaced(c.slots[e.slot], true)
		c.slots[e.slot] = r.Seq
	}
	c.entries = append(c.entries, e)
}

func (h *history) take(records []*registry.Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.chapters[len(h.chapters)-1]
	for _, r := range slices.Backward(records) {
		c.drop(r)
	}
}

// drop undoes the add of the newest record.
func (c *chapter) drop(r *registry.Record) {
	last := len(c.entries) - 1
	if last < 0 || c.entries[last].seq != r.Seq {
		return
	}
	gone := c.entries[last]
	c.entries = c.entries[:last]
	if gone.slot == (slot{}) {
		return
	}
	delete(c.slots, gone.slot)
	for i := range slices.Backward(c.entries) {
		if c.entries[i].slot == gone.slot {
			c.entries[i].replaced = false
			c.slots[gone.slot] = c.entries[i].seq
			return
		}
	}
}

func (c *chapter) markReplaced(seq protocol.Seq, replaced bool) {
	if i, ok := c.find(seq); ok {
		c.entries[i].replaced = replaced
	}
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
