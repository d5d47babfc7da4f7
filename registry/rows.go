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
// big-endian; a join's goes on with the topic. Its value is a format number and
// one MessagePack array in the canonical form of package protocol:
//
//	nodes    1 [key bin, name str, tags [str…], last seen uint]
//	joins    1 []
//	cursors  1 [seq uint]
const (
	tableNodes   = "nodes"
	tableJoins   = "joins"
	tableCursors = "cursors"

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
		_ = e.EncodeBytesLen(len(n.Key)) // EncodeBytes would write nil for no key
		_, _ = e.Writer().Write(n.Key)
		_ = e.EncodeString(n.Name)
		_ = e.EncodeArrayLen(len(n.Tags))
		for _, t := range n.Tags {
			_ = e.EncodeString(t)
		}
		_ = e.EncodeUint(uint64(n.LastSeen))
	})
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
	}
	if err != nil {
		return fmt.Errorf("table %s, row %x: %w", e.Table, e.Key, err)
	}
	return nil
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
		for range r.list() {
			n.Tags = append(n.Tags, r.text())
		}
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

func (r *rowReader) list() int {
	n, err := r.d.DecodeArrayLen()
	r.keep(err)
	return n
}
