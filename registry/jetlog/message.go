package jetlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/memlog"
)

// A message in the stream is a head of fixed size, big-endian, and a body, which
// is one MessagePack array in the canonical form of package protocol:
//
//	format  1 byte   1
//	mark    3 bytes  "pgl"
//	kind    1 byte
//	index   2 bytes  which fragment of the body this is, from 0 on,
//	count   2 bytes  of how many
//	epoch   8 bytes  of the log
//	base    8 bytes  stream sequence of the message that it must stand behind;
//	                 of batches and beginnings only
//	id     16 bytes  chance; the same in all fragments of a body
//
// Readers pass over messages without the mark, which are somebody else's, and over
// elements that an array has beyond those they know. A format or a kind that they
// do not know is from a newer pilotgo, and ends them.
type head struct {
	kind         kind
	index, count uint16
	epoch        protocol.EpochID
	base         uint64
	id           id
}

type (
	kind byte
	id   [16]byte
)

const (
	format   = 1
	mark     = "pgl"
	headSize = 41
)

const (
	kindBegin    kind = iota + 1 // [epoch, born]: the first message
	kindBatch                    // see part
	kindPurge                    // [topic, up to seq]
	kindExpire                   // [time]
	kindRetain                   // [messages, age, versions, topic bytes, total bytes]
	kindSaved                    // [stream sequence, bytes]: there is a snapshot
	kindPart                     // of a snapshot: see part; in the other stream
	kindSnapshot                 // see snapshot; in the other stream
	lastKind     = kindSnapshot
)

// conditional reports whether a message counts only directly behind its base.
func (k kind) conditional() bool { return k == kindBegin || k == kindBatch }

func (h *head) append(b []byte) []byte {
	b = append(b, format)
	b = append(b, mark...)
	b = append(b, byte(h.kind))
	b = binary.BigEndian.AppendUint16(b, h.index)
	b = binary.BigEndian.AppendUint16(b, h.count)
	b = binary.BigEndian.AppendUint64(b, uint64(h.epoch))
	b = binary.BigEndian.AppendUint64(b, h.base)
	return append(b, h.id[:]...)
}

func parseHead(b []byte) (h head, body []byte, err error) {
	switch {
	case len(b) < 1+len(mark) || string(b[1:1+len(mark)]) != mark:
		return h, nil, errForeign
	case b[0] != format:
		return h, nil, newer("format", b[0])
	case len(b) < headSize:
		return h, nil, damaged("%d bytes", len(b))
	}
	rest := b[1+len(mark):]
	h.kind = kind(rest[0])
	h.index, h.count = binary.BigEndian.Uint16(rest[1:]), binary.BigEndian.Uint16(rest[3:])
	h.epoch = protocol.EpochID(binary.BigEndian.Uint64(rest[5:]))
	h.base = binary.BigEndian.Uint64(rest[13:])
	copy(h.id[:], rest[21:])
	switch {
	case h.kind == 0 || h.index >= h.count:
		return h, nil, damaged("kind %d, fragment %d of %d", h.kind, h.index, h.count)
	case h.kind > lastKind:
		return h, nil, newer("kind", byte(h.kind))
	}
	return h, b[headSize:], nil
}

// errForeign is a message that no pilotgo wrote.
var errForeign = errors.New("message of somebody else")

func newer(what string, n byte) error {
	return protocol.Errorf(protocol.ErrVersion, "%s %d in the stream: written by a newer pilotgo", what, n)
}

func damaged(what string, args ...any) error {
	return protocol.Errorf(protocol.ErrInternal, "a message in the stream is damaged: "+what, args...)
}

// part is a batch, or a piece of a snapshot. Its body is
//
//	[key floor, records, fences, entries, claims, keys, marks]
//
//	record  [deliver frame bin, key bin, slot str, digest bin, epoch]
//	fence   [topic str, K, S]
//	entry   [table str, key bin, value bin]; without value = deleted
//	claim   [key bin, instance bin]
//	key     [sender, key bin, seq, time, digest bin]
//	mark    [topic str, to, seq]
type part struct {
	registry.Batch
	keys  []registry.KeyEntry
	marks []memlog.Mark
}

type writer struct {
	buf bytes.Buffer
	e   *msgpack.Encoder
}

func newWriter() *writer {
	w := &writer{}
	w.e = msgpack.NewEncoder(&w.buf)
	return w
}

// A bytes.Buffer never fails, so neither do the primitives.

func (w *writer) list(n int)    { _ = w.e.EncodeArrayLen(n) }
func (w *writer) uint(n uint64) { _ = w.e.EncodeUint(n) }
func (w *writer) text(s string) { _ = w.e.EncodeString(s) }

func (w *writer) bytes(b []byte) {
	_ = w.e.EncodeBytesLen(len(b)) // EncodeBytes would write nil for no bytes
	w.buf.Write(b)
}

// numbers is a body of numbers.
func numbers(list ...uint64) []byte {
	w := newWriter()
	w.list(len(list))
	for _, n := range list {
		w.uint(n)
	}
	return w.buf.Bytes()
}

func (p *part) append() []byte {
	w := newWriter()
	w.list(7)
	w.uint(uint64(p.KeyFloor))
	w.list(len(p.Records))
	for _, r := range p.Records {
		w.record(r)
	}
	w.list(len(p.Fences))
	for i := range p.Fences {
		f := &p.Fences[i]
		w.list(3)
		w.text(f.Topic)
		w.uint(f.Fence.K)
		w.uint(uint64(f.Fence.S))
	}
	w.list(len(p.Entries))
	for i := range p.Entries {
		w.entry(&p.Entries[i])
	}
	w.list(len(p.Claims))
	for i := range p.Claims {
		w.list(2)
		w.bytes([]byte(p.Claims[i].Key))
		w.bytes(p.Claims[i].Instance[:])
	}
	w.list(len(p.keys))
	for i := range p.keys {
		w.key(&p.keys[i])
	}
	w.list(len(p.marks))
	for _, m := range p.marks {
		w.list(3)
		w.text(m.Topic)
		w.uint(uint64(m.To))
		w.uint(uint64(m.Evicted))
	}
	return w.buf.Bytes()
}

func (w *writer) record(r *registry.Record) {
	w.list(5)
	w.bytes(r.Frame()[protocol.LengthSize:])
	w.bytes(r.Key)
	w.text(r.Slot)
	w.bytes(r.Digest[:])
	w.uint(uint64(r.Epoch))
}

func (w *writer) entry(e *registry.Entry) {
	if e.Value == nil {
		w.list(2)
	} else {
		w.list(3)
	}
	w.text(e.Table)
	w.bytes([]byte(e.Key))
	if e.Value != nil {
		w.bytes(e.Value)
	}
}

func (w *writer) key(k *registry.KeyEntry) {
	w.list(5)
	w.uint(uint64(k.Sender))
	w.bytes(k.Key)
	w.uint(uint64(k.Seq))
	w.uint(uint64(k.Time))
	w.bytes(k.Digest[:])
}

// reader reads a body that protocol.Validate has passed, and keeps the first
// error.
type reader struct {
	d   *msgpack.Decoder
	err error
}

// read reads a body.
func read(body []byte, fields func(*reader)) error {
	if err := protocol.Validate(body); err != nil {
		return damaged("%v", err)
	}
	r := &reader{d: msgpack.NewDecoder(bytes.NewReader(body))}
	fields(r)
	if r.err != nil {
		return damaged("%v", r.err)
	}
	return nil
}

func (r *reader) keep(err error) {
	if r.err == nil {
		r.err = err
	}
}

// list reads an array's length; after an error it is 0, so that loops end.
func (r *reader) list() int {
	n, err := r.d.DecodeArrayLen()
	r.keep(err)
	if r.err != nil {
		return 0
	}
	return n
}

// array reads an array of which least elements are known, and passes over the
// others.
func (r *reader) array(least int, fields func()) {
	n := r.list()
	if n < least {
		r.keep(fmt.Errorf("%d elements where %d are needed", n, least))
	}
	if r.err != nil {
		return
	}
	fields()
	for ; n > least && r.err == nil; n-- {
		r.keep(r.d.Skip())
	}
}

func (r *reader) uint() uint64 {
	n, err := r.d.DecodeUint64()
	r.keep(err)
	return n
}

func (r *reader) bytes() []byte {
	b, err := r.d.DecodeBytes()
	r.keep(err)
	return b
}

func (r *reader) text() string {
	s, err := r.d.DecodeString()
	r.keep(err)
	return s
}

var errSize = errors.New("bytes of another length")

func (r *reader) fixed(to []byte) {
	if b := r.bytes(); len(b) == len(to) {
		copy(to, b)
	} else {
		r.keep(errSize)
	}
}

// parsePart reads a body. What it gives owns its memory.
func parsePart(body []byte) (*part, error) {
	p := &part{}
	err := read(body, func(r *reader) { r.array(7, func() { r.part(p) }) })
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (r *reader) part(p *part) {
	p.KeyFloor = protocol.Seq(r.uint())
	for range r.list() {
		r.array(5, func() { p.Records = append(p.Records, r.record()) })
	}
	for range r.list() {
		r.array(3, func() {
			p.Fences = append(p.Fences, registry.FenceEntry{
				Topic: r.text(), Fence: protocol.Fence{K: r.uint(), S: protocol.Seq(r.uint())},
			})
		})
	}
	for range r.list() {
		p.Entries = append(p.Entries, r.entry())
	}
	for range r.list() {
		r.array(2, func() {
			c := registry.Claim{Key: string(r.bytes())}
			r.fixed(c.Instance[:])
			p.Claims = append(p.Claims, c)
		})
	}
	for range r.list() {
		r.array(5, func() { p.keys = append(p.keys, r.key()) })
	}
	for range r.list() {
		r.array(3, func() {
			p.marks = append(p.marks, memlog.Mark{Topic: r.text(), To: protocol.NodeID(r.uint()), Evicted: protocol.Seq(r.uint())})
		})
	}
}

func (r *reader) record() *registry.Record {
	var d protocol.Deliver
	frame := r.bytes()
	if r.err == nil {
		r.keep(d.Parse(frame))
	}
	rec := &registry.Record{Message: d.Message}
	rec.Key, rec.Slot = r.bytes(), r.text()
	r.fixed(rec.Digest[:])
	rec.Epoch = protocol.EpochID(r.uint())
	if r.err == nil && len(rec.Key) > protocol.MaxKey {
		r.keep(errSize)
	}
	if r.err == nil {
		rec.Seal()
	}
	return rec
}

// entry is the one array whose length says something: nothing can be added to it.
func (r *reader) entry() (e registry.Entry) {
	n := r.list()
	if n != 2 && n != 3 {
		r.keep(fmt.Errorf("entry of %d elements", n))
		return e
	}
	e.Table, e.Key = r.text(), string(r.bytes())
	if n == 3 {
		e.Value = r.bytes()
		if e.Value == nil {
			e.Value = []byte{}
		}
	}
	return e
}

func (r *reader) key() (k registry.KeyEntry) {
	k.Sender, k.Key = protocol.NodeID(r.uint()), r.bytes()
	k.Seq, k.Time = protocol.Seq(r.uint()), protocol.Time(r.uint())
	r.fixed(k.Digest[:])
	if r.err == nil && len(k.Key) > protocol.MaxKey {
		r.keep(errSize)
	}
	return k
}

// parseNumbers reads a body of numbers.
func parseNumbers(body []byte, to ...*uint64) error {
	return read(body, func(r *reader) {
		r.array(len(to), func() {
			for _, n := range to {
				*n = r.uint()
			}
		})
	})
}

// fragments cuts a body into messages of at most size bytes, the first behind
// base.
func fragments(h head, body []byte, size int) [][]byte {
	room := size - headSize
	count := max(1, (len(body)+room-1)/room)
	h.count = uint16(count)
	list := make([][]byte, 0, count)
	for i := range count {
		h.index = uint16(i)
		n := min(room, len(body))
		list = append(list, append(h.append(make([]byte, 0, headSize+n)), body[:n]...))
		body = body[n:]
		h.base++
	}
	return list
}
