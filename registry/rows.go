package registry

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/pilotgo/pilotgo/protocol"
)

// The tables kept with a log. A row's key begins with the node's id, four bytes
// big-endian; a join's goes on with the topic. That of a standing is the hash of
// a public key, that of a token its id. Its value is a format number and one
// MessagePack array in the canonical form of package protocol:
//
//	nodes      1 [key bin, name str, tags [str…], last seen uint]
//	joins      1 []
//	cursors    1 [seq uint]
//	senders    1 []
//	standings  1 [standing uint, since uint, labels [str…], token bin]
//	tokens     1 [hash bin, created uint, expires uint, uses uint, used uint, revoked uint, labels [str…], note str]
const (
	tableNodes     = "nodes"
	tableJoins     = "joins"
	tableCursors   = "cursors"
	tableSenders   = "senders"
	tableStandings = "standings"
	tableTokens    = "tokens"

	rowFormat = 1
)

func nodeKey(id protocol.NodeID) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(id)))
}

func joinKey(id protocol.NodeID, topic string) string { return nodeKey(id) + topic }

// row writes a value. A bytes.Buffer never fails, so neither do the primitives.
func row(fields int, write func(e *msgpack.Encoder)) []byte {
	var buf bytes.Buffer
	buf.WriteByte(rowFormat)
	e := msgpack.NewEncoder(&buf)
	_ = e.EncodeArrayLen(fields)
	write(e)
	return buf.Bytes()
}

func nodeRow(n *protocol.Node) []byte {
	return row(4, func(e *msgpack.Encoder) {
		encodeBytes(e, n.Key)
		_ = e.EncodeString(n.Name)
		encodeTexts(e, n.Tags)
		_ = e.EncodeUint(uint64(n.LastSeen))
	})
}

func standingRow(k *protocol.KeyEntry) []byte {
	return row(4, func(e *msgpack.Encoder) {
		_ = e.EncodeUint(uint64(k.Standing))
		_ = e.EncodeUint(uint64(k.Since))
		encodeTexts(e, k.Labels)
		encodeBytes(e, k.Token)
	})
}

func tokenRow(k *joinToken) []byte {
	revoked := uint64(0)
	if k.Revoked {
		revoked = 1
	}
	return row(8, func(e *msgpack.Encoder) {
		encodeBytes(e, k.hash[:])
		for _, n := range []uint64{uint64(k.Created), uint64(k.Expires), k.Uses, k.Used, revoked} {
			_ = e.EncodeUint(n)
		}
		encodeTexts(e, k.Labels)
		_ = e.EncodeString(k.Note)
	})
}

// encodeBytes is EncodeBytes, which would write nil for no bytes.
func encodeBytes(e *msgpack.Encoder, b []byte) {
	_ = e.EncodeBytesLen(len(b))
	_, _ = e.Writer().Write(b)
}

func encodeTexts(e *msgpack.Encoder, list []string) {
	_ = e.EncodeArrayLen(len(list))
	for _, text := range list {
		_ = e.EncodeString(text)
	}
}

func joinRow() []byte { return row(0, func(*msgpack.Encoder) {}) }

func cursorRow(seq protocol.Seq) []byte {
	return row(1, func(e *msgpack.Encoder) { _ = e.EncodeUint(uint64(seq)) })
}

// loadEntry takes over one row. Tables it does not know are somebody else's.
func (b *broker) loadEntry(e Entry) error {
	var err error
	switch e.Table {
	case tableNodes:
		err = b.loadNode(e)
	case tableJoins:
		err = b.loadJoin(e)
	case tableCursors:
		err = b.loadCursor(e)
	case tableSenders:
		err = b.loadSender(e)
	case tableStandings:
		err = b.loadStanding(e)
	case tableTokens:
		err = b.loadToken(e)
	}
	if err != nil {
		return fmt.Errorf("table %s, row %x: %w", e.Table, e.Key, err)
	}
	return nil
}

// dropEntry takes over that a row is gone. A node with a session here stays, and
// its row comes back when that ends.
func (b *broker) dropEntry(e Entry) error {
	switch e.Table {
	case tableStandings:
		b.dropStanding(protocol.KeyHash(padded(e.Key, len(protocol.KeyHash{}))))
		return nil
	case tableTokens:
		b.dropToken(protocol.TokenID(padded(e.Key, len(protocol.TokenID{}))))
		return nil
	}
	id, topic, err := cutNodeKey(e.Key)
	if err != nil {
		return nil //nolint:nilerr // a row of a table that is not known
	}
	switch e.Table {
	case tableNodes:
		if b.nodesByID[id].Online == 0 {
			b.dropNode(id)
		}
	case tableJoins:
		b.takeOut(id, topic)
	case tableCursors:
		b.setCursor(id, 0)
	case tableSenders:
		delete(b.spoken, id)
	}
	return nil
}

// padded is a key as bytes of a fixed number.
func padded(key string, size int) []byte {
	b := make([]byte, size)
	copy(b, key)
	return b
}

func (b *broker) loadNode(e Entry) error {
	id, rest, err := cutNodeKey(e.Key)
	if err != nil {
		return err
	}
	n, err := parseNodeRow(e.Value)
	if err != nil {
		return err
	}
	if rest != "" {
		return errors.New("key too long")
	}
	n.ID, n.Online = id, b.nodesByID[id].Online
	b.putNode(n)
	return nil
}

func (b *broker) loadJoin(e Entry) error {
	id, topic, err := cutNodeKey(e.Key)
	if err != nil {
		return err
	}
	if err := protocol.ValidTopic(topic); err != nil {
		return err
	}
	if err := parseJoinRow(e.Value); err != nil {
		return err
	}
	b.putIn(id, topic)
	return nil
}

func (b *broker) loadCursor(e Entry) error {
	id, rest, err := cutNodeKey(e.Key)
	if err != nil {
		return err
	}
	seq, err := parseCursorRow(e.Value)
	if err != nil {
		return err
	}
	if rest != "" {
		return errors.New("key too long")
	}
	b.inboxOf(id).cursor = seq
	return nil
}

func (b *broker) loadSender(e Entry) error {
	id, rest, err := cutNodeKey(e.Key)
	if err != nil {
		return err
	}
	if err := parseJoinRow(e.Value); err != nil {
		return err
	}
	if rest != "" {
		return errors.New("key too long")
	}
	b.spoken[id] = struct{}{}
	return nil
}

func (b *broker) loadStanding(e Entry) error {
	var k protocol.KeyEntry
	if copy(k.Key[:], e.Key) != len(e.Key) || len(e.Key) != len(k.Key) {
		return errors.New("key of another length")
	}
	err := parseRow(e.Value, 4, func(r *rowReader) {
		k.Standing = protocol.Standing(r.uint())
		k.Since = protocol.Time(r.uint())
		k.Labels = r.texts()
		k.Token = r.bytes()
	}, func() []byte { return standingRow(&k) })
	if err != nil {
		return err
	}
	if k.Standing > protocol.StandingRevoked {
		return errRow
	}
	b.putStanding(k)
	return nil
}

func (b *broker) loadToken(e Entry) error {
	var k joinToken
	if copy(k.ID[:], e.Key) != len(e.Key) || len(e.Key) != len(k.ID) {
		return errors.New("key of another length")
	}
	err := parseRow(e.Value, 8, func(r *rowReader) {
		copy(k.hash[:], r.bytes())
		k.Created, k.Expires = protocol.Time(r.uint()), protocol.Time(r.uint())
		k.Uses, k.Used, k.Revoked = r.uint(), r.uint(), r.uint() == 1
		k.Labels = r.texts()
		k.Note = r.text()
	}, func() []byte { return tokenRow(&k) })
	if err != nil {
		return err
	}
	b.putToken(k)
	return nil
}

func cutNodeKey(key string) (id protocol.NodeID, rest string, err error) {
	if len(key) < 4 {
		return 0, "", errors.New("key too short")
	}
	id = protocol.NodeID(binary.BigEndian.Uint32([]byte(key[:4])))
	if id == 0 {
		return 0, "", errors.New("node 0") // which is nobody: lists begin behind it
	}
	return id, key[4:], nil
}

func parseNodeRow(v []byte) (protocol.Node, error) {
	var n protocol.Node
	err := parseRow(v, 4, func(r *rowReader) {
		n.Key = r.bytes()
		n.Name = r.text()
		n.Tags = r.texts()
		n.LastSeen = protocol.Time(r.uint())
	}, func() []byte { return nodeRow(&n) })
	return n, err
}

func parseJoinRow(v []byte) error {
	return parseRow(v, 0, func(*rowReader) {}, joinRow)
}

func parseCursorRow(v []byte) (protocol.Seq, error) {
	var seq protocol.Seq
	err := parseRow(v, 1, func(r *rowReader) { seq = protocol.Seq(r.uint()) },
		func() []byte { return cursorRow(seq) })
	return seq, err
}

var errRow = errors.New("not a row of this format")

// parseRow reads a value and accepts it when writing what was read gives the
// same bytes. The validator covers every length before the library sees one.
func parseRow(v []byte, fields int, read func(*rowReader), again func() []byte) error {
	if len(v) == 0 {
		return errRow
	}
	if v[0] != rowFormat {
		return fmt.Errorf("format %d: written by a newer pilotgo", v[0])
	}
	if err := protocol.Validate(v[1:]); err != nil {
		return err
	}
	r := &rowReader{d: msgpack.NewDecoder(bytes.NewReader(v[1:]))}
	if r.list() != fields {
		return errRow
	}
	read(r)
	if r.err != nil || !bytes.Equal(v, again()) {
		return errRow
	}
	return nil
}

// rowReader keeps the first error of the library's primitives.
type rowReader struct {
	d   *msgpack.Decoder
	err error
}

func (r *rowReader) keep(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *rowReader) uint() uint64 {
	n, err := r.d.DecodeUint64()
	r.keep(err)
	return n
}

func (r *rowReader) bytes() []byte {
	b, err := r.d.DecodeBytes()
	r.keep(err)
	return b
}

func (r *rowReader) text() string {
	s, err := r.d.DecodeString()
	r.keep(err)
	return s
}

func (r *rowReader) texts() (list []string) {
	for range r.list() {
		list = append(list, r.text())
	}
	return list
}

func (r *rowReader) list() int {
	n, err := r.d.DecodeArrayLen()
	r.keep(err)
	return n
}
