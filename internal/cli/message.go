package cli

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pilotgo/pilotgo/protocol"
)

// message is a delivered message with what is known about its delivery.
type message struct {
	*protocol.Message
	epoch protocol.EpochID
	host  string          // where it was read
	to    protocol.NodeID // who read it
}

// The kinds that Pilot's own tool tells messages apart by.
const (
	kindText   = "TEXT"
	kindJSON   = "JSON"
	kindBinary = "BINARY"
)

// frameKind guesses the kind, which the log does not keep.
func frameKind(payload, object []byte) string {
	switch {
	case object != nil:
		return kindJSON
	case !utf8.Valid(payload):
		return kindBinary
	}
	return kindText
}

func (m *message) kind() string { return frameKind(m.Payload, compactObject(m.Payload)) }

// own are the keys that a message's payload never sets, since scripts trust them
// to come from the registry.
var own = map[string]bool{
	"id": true, "topic": true, "payload": true, "data": true, "bytes": true, "sender": true, "from": true,
	"to": true, "node_id": true, "seq": true, "received_at": true, "timestamp": true, "type": true,
	"frame_type": true, "content": true, "registry": true, "origin": true, "fence_term": true,
	"data_b64": true, "data_encoding": true,
}

// maxCopied is how many keys a payload may have to be copied beside it.
const maxCopied = 64

// appendJSON appends the message as one JSON object: its fields, then the keys of
// a payload that is an object, where they are free. Only "type" gives way to the
// payload's own.
//
// A payload that is no UTF-8 is whole in data_b64 only. Its data is still a text,
// with U+FFFD for what is none, as in pilotctl; content, which would be that text
// again at three bytes for one, is left out.
func (m *message) appendJSON(b []byte) []byte {
	object := compactObject(m.Payload)
	keys := members(object, maxCopied)
	kind := frameKind(m.Payload, object)

	b = fmt.Appendf(b, `{"id":"%s-%d","topic":`, m.epoch, m.Seq)
	if m.Topic == "" {
		b = append(b, "null"...)
	} else {
		b = appendQuotedString(b, m.Topic)
	}
	b = append(b, `,"payload":`...)
	if object == nil {
		b = append(b, "null"...)
	} else {
		b = append(b, object...)
	}
	b = append(b, `,"data":`...)
	start := len(b)
	b = appendQuoted(b, m.Payload)
	if kind != kindBinary {
		quoted := b[start:]
		b = append(append(b, `,"content":`...), quoted...)
	}
	b = fmt.Appendf(b, `,"bytes":%d,"sender":%d,"from":"%s","to":"%s","seq":%d`,
		len(m.Payload), m.Sender, m.Sender.Address(), m.to.Address(), m.Seq)
	at := m.Time.Time().AppendFormat(nil, time.RFC3339)
	b = fmt.Appendf(b, `,"received_at":"%s","timestamp":"%s","frame_type":"%s","type":`, at, at, kind)
	b = append(b, payloadType(keys, kind)...)
	b = appendQuotedString(append(b, `,"registry":`...), m.host)
	b = m.appendRare(b, kind)
	for _, k := range keys {
		if !own[k.key] {
			b = append(appendQuotedString(append(b, ','), k.key), ':')
			b = append(b, k.raw...)
		}
	}
	return append(b, '}')
}

// appendRare appends the fields that few messages have.
func (m *message) appendRare(b []byte, kind string) []byte {
	if m.Origin != 0 {
		b = fmt.Appendf(b, `,"origin":%d`, m.Origin)
	}
	if term := m.Term(); term != 0 {
		b = fmt.Appendf(b, `,"fence_term":%d`, term)
	}
	if kind == kindBinary {
		b = append(b, `,"data_encoding":"base64","data_b64":"`...)
		b = base64.StdEncoding.AppendEncode(b, m.Payload)
		b = append(b, '"')
	}
	return b
}

// payloadType is the application's own type where it is a text.
func payloadType(keys []member, kind string) []byte {
	for _, k := range keys {
		if k.key == "type" && k.raw[0] == '"' {
			return k.raw
		}
	}
	return strconv.AppendQuote(nil, kind)
}

// appendPlain appends the message as pilotctl's inbox shows it.
func (m *message) appendPlain(b []byte) []byte {
	b = appendQuoted(fmt.Appendf(b, `{"bytes":%d,"data":`, len(m.Payload)), m.Payload)
	return fmt.Appendf(b, `,"from":"%s","received_at":"%s","type":"%s"}`, m.Sender.Address(),
		m.Time.Time().Format(time.RFC3339), m.kind())
}

// appendEvent appends the message as pilotctl's subscribe shows it.
func (m *message) appendEvent(b []byte) []byte {
	b = appendQuoted(fmt.Appendf(b, `{"bytes":%d,"data":`, len(m.Payload)), m.Payload)
	return append(appendQuotedString(append(b, `,"topic":`...), m.Topic), '}')
}

// writeLine writes the message as pilotctl's subscribe does for people.
func (m *message) writeLine(w *bufio.Writer, terminal bool) {
	fmt.Fprintf(w, "[%s] %s\n", shown(m.Topic, terminal), shown(string(m.Payload), terminal))
}

// writeText writes the message for people.
func (m *message) writeText(w *bufio.Writer, terminal bool) {
	where := m.Topic
	if where == "" {
		where = "direct"
	}
	fmt.Fprintf(w, "%s  %s  from %s  #%d\n", m.Time.Time().Format(time.RFC3339), shown(where, terminal), m.Sender.Address(), m.Seq)
	fmt.Fprintf(w, "  %s\n", shown(string(m.Payload), terminal))
}

// shown is s as it may go to a terminal, where control characters could steer it.
func shown(s string, terminal bool) string {
	if !terminal {
		return s
	}
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// candidacy tells whether the message is an election candidacy, and so worth
// reading only while that round of the election lasts.
func (m *message) candidacy() bool {
	if !strings.HasPrefix(m.Topic, electionPrefix) {
		return false
	}
	if !bytes.Contains(m.Payload, []byte("election")) && bytes.IndexByte(m.Payload, '\\') < 0 {
		return false // neither as it is nor escaped
	}
	var keys map[string]json.RawMessage
	return json.Unmarshal(m.Payload, &keys) == nil && unquoteIfText(keys["type"]) == "election"
}

func unquoteIfText(raw []byte) string {
	if len(raw) == 0 || raw[0] != '"' {
		return ""
	}
	return unquote(raw)
}

const (
	electionPrefix = "election:"

	// candidacyAge covers the recipe's ten seconds of waiting twice over. Kept
	// longer, the candidacy of a dead node would win every later election.
	candidacyAge = 25 * time.Second
)
