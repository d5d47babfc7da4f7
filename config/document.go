package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pilotgo/pilotgo/protocol"
)

// MaxDocument is how long a document may be; with what stands around it the
// message must fit into a publish, whose maximum is the same by default.
const MaxDocument = protocol.DefaultPayload

// maxMessage is how long a message with a document may be, where a registry takes
// longer ones than by default.
const maxMessage = 2 * MaxDocument

// Digest is the SHA-256 of a document's bytes.
type Digest [sha256.Size]byte

// DigestOf is the digest of bytes.
func DigestOf(b []byte) Digest { return sha256.Sum256(b) }

const digestPrefix = "sha256:"

// String is "sha256:" and 64 hex digits, or "" for the zero digest.
func (d Digest) String() string {
	if d == (Digest{}) {
		return ""
	}
	return digestPrefix + hex.EncodeToString(d[:])
}

// ParseDigest reads what String prints. The error is ErrInvalid.
func ParseDigest(s string) (d Digest, err error) {
	text, ok := strings.CutPrefix(s, digestPrefix)
	if !ok || len(text) != hex.EncodedLen(len(d)) {
		return d, protocol.Errorf(protocol.ErrInvalid, "digest %q is not sha256: and 64 hex digits", s)
	}
	if _, err := hex.Decode(d[:], []byte(text)); err != nil {
		return Digest{}, protocol.Errorf(protocol.ErrInvalid, "digest %q is not sha256: and 64 hex digits", s)
	}
	return d, nil
}

// Document is one version of a swarm's configuration. Its fields are not to be
// changed, nor the bytes they hold.
type Document struct {
	Version uint64
	Config  []byte // a JSON object, byte for byte as it was published
	Digest  Digest // of Config

	Reason string // why it was published
	Who    string // who published it, as they say

	// RolledBackFrom and RolledBackTo are set on a rollback: the version that was
	// given up, and the one whose content this is.
	RolledBackFrom, RolledBackTo uint64

	// Staged is set while the version is in a rollout: only agents that the rollout
	// has reached may apply it.
	Staged bool

	// Extra are the message's other fields, in order.
	Extra []Field

	// Its place in the log; zero in a document that is not published yet.
	Epoch  protocol.EpochID
	Seq    protocol.Seq
	Time   time.Time       // registry time
	Sender protocol.NodeID // proved, unlike Who

	stamp uint64 // the term under which the message passed its topic's fence
	fault error
}

// Field is a member of a JSON object: its name, and its value as it is spelled.
type Field struct {
	Name  string
	Value json.RawMessage
}

// Fault is what makes a published document unfit for use, whatever it says: it is
// no object, has a name twice, nests too deep, or its digest is another than the
// message tells. Agents reject it. The error is ErrInvalid.
func (d *Document) Fault() error { return d.fault }

// NewDocument makes a document of bytes: a JSON object, without what space stands
// around it. It keeps them. The error is ErrInvalid and says what is wrong
// with them: [Document.Fault] would be the same.
func NewDocument(version uint64, config []byte) (*Document, error) {
	config = bytes.Trim(config, " \n\t\r")
	d := &Document{Version: version, Config: config, Digest: DigestOf(config)}
	d.fault = check(config)
	return d, d.fault
}

// check reads a document strictly.
func check(config []byte) error {
	if len(config) > MaxDocument {
		return protocol.Errorf(protocol.ErrTooLarge, "config of %d bytes, maximum %d", len(config), MaxDocument)
	}
	_, err := scanFields(config, MaxDepth-1, false)
	return err
}

// The types of messages on config:SWARM. Scripts know the first one only, so they
// never meet a version before its rollout is over.
const (
	typeUpdate = "config_update"
	typeStage  = "config_stage"
)

// Void is why a message counts for nothing. It is an error too.
type Void uint8

// Why a message is void.
const (
	VoidMalformed Void = iota + 1 // no JSON object, a field of ours twice, or too long
	VoidType                      // another type of message
	VoidVersion                   // the version is no integer from 1 to 2^53−1
	VoidConfig                    // there is no config
	VoidUnstamped                 // it did not pass the fence with its version as the term
	VoidOld                       // the version is not above one that was read before
	VoidTaken                     // the version has another content already
)

var voidNames = [...]string{
	VoidMalformed: "malformed", VoidType: "another type", VoidVersion: "bad version", VoidConfig: "no config",
	VoidUnstamped: "not stamped with its version", VoidOld: "old version", VoidTaken: "version has another content",
}

func (v Void) String() string {
	if 0 < v && int(v) < len(voidNames) {
		return voidNames[v]
	}
	return "void " + strconv.Itoa(int(v))
}

func (v Void) Error() string { return "config message: " + v.String() }

// ParseDocument reads the payload of a message on config:SWARM. Config is part of
// it. Every error is a [Void]; a document that holds a version but cannot be used
// is none, see [Document.Fault].
func ParseDocument(payload []byte) (*Document, error) {
	if len(payload) > maxMessage {
		return nil, VoidMalformed
	}
	fields, err := scanFields(payload, MaxDepth, true)
	if err != nil {
		return nil, VoidMalformed
	}
	d := &Document{}
	var told string
	kind, err := d.read(fields, &told)
	switch {
	case err != nil:
		return nil, err
	case kind != typeUpdate && kind != typeStage:
		return nil, VoidType
	case d.Version == 0:
		return nil, VoidVersion
	case d.Config == nil:
		return nil, VoidConfig
	}
	d.Staged = kind == typeStage
	d.Digest = DigestOf(d.Config)
	d.fault = check(d.Config)
	if d.fault == nil && told != "" && told != d.Digest.String() {
		d.fault = protocol.Errorf(protocol.ErrInvalid, "the digest does not fit: config was changed on its way")
	}
	return d, nil
}

// read sorts the fields of a message.
func (d *Document) read(fields []field, digest *string) (kind string, err error) {
	texts := map[string]*string{"type": &kind, "digest": digest, "reason": &d.Reason, "who": &d.Who}
	numbers := map[string]*uint64{
		"version": &d.Version, "rolled_back_from": &d.RolledBackFrom, "rolled_back_to": &d.RolledBackTo,
	}
	var names names
	for _, f := range fields {
		text, number := texts[f.name], numbers[f.name]
		known := text != nil || number != nil || f.name == "config"
		switch {
		case known && !names.add(f.name):
			return "", VoidMalformed
		case text != nil:
			*text = unquote(f.value)
		case number != nil:
			*number = version(f.value)
		case f.name == "config":
			d.Config = f.value
		default:
			d.Extra = append(d.Extra, Field{f.name, f.value})
		}
	}
	return kind, nil
}

// extra is the value of another field, nil if there is none.
func (d *Document) extra(name string) []byte {
	for _, f := range d.Extra {
		if f.Name == name {
			return f.Value
		}
	}
	return nil
}

// version reads an integer from 1 to 2^53−1; anything else is 0.
func version(raw []byte) uint64 {
	n, err := strconv.ParseUint(string(raw), 10, 64)
	if err != nil || n > protocol.MaxTerm {
		return 0
	}
	return n
}

// unquote is a string's text; of anything else "".
func unquote(raw []byte) string {
	if n := len(raw); n >= 2 && raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return string(raw[1 : n-1])
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// ReadDocument reads a message of the topic. Every error is a [Void]. It does not
// judge the message's place in the log.
func ReadDocument(m *protocol.Message, epoch protocol.EpochID) (*Document, error) {
	d, err := ParseDocument(m.Payload)
	if err != nil {
		return nil, err
	}
	d.Epoch, d.Seq, d.Time, d.Sender, d.stamp = epoch, m.Seq, m.Time.Time(), m.Sender, m.Term()
	return d, nil
}

// stamped is ReadDocument for messages behind a fence: VoidUnstamped is for those
// that did not pass it with their version.
func stamped(m *protocol.Message, epoch protocol.EpochID) (*Document, error) {
	d, err := ReadDocument(m, epoch)
	if err == nil && d.stamp != d.Version {
		err = VoidUnstamped
	}
	return d, err
}

// Append appends the message that publishes the document.
func (d *Document) Append(b []byte) []byte {
	kind := typeUpdate
	if d.Staged {
		kind = typeStage
	}
	b = append(b, `{"type":"`...)
	b = append(b, kind...)
	b = append(b, `","version":`...)
	b = strconv.AppendUint(b, d.Version, 10)
	b = append(b, `,"config":`...)
	b = append(b, d.Config...)
	b = appendText(b, "digest", d.Digest.String())
	b = appendText(b, "reason", d.Reason)
	b = appendText(b, "who", d.Who)
	b = appendNumber(b, "rolled_back_from", d.RolledBackFrom)
	b = appendNumber(b, "rolled_back_to", d.RolledBackTo)
	for _, f := range d.Extra {
		b = append(appendName(b, f.Name), f.Value...)
	}
	return append(b, '}')
}

func appendName(b []byte, name string) []byte {
	b = append(b, ',')
	return append(appendQuoted(b, name), ':')
}

// appendQuoted leaves '<', '>' and '&' as they are.
func appendQuoted(b []byte, text string) []byte {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		panic(err) // of a string there is none
	}
	return append(b, bytes.TrimSuffix(out.Bytes(), []byte("\n"))...)
}

func appendText(b []byte, name, text string) []byte {
	if text == "" {
		return b
	}
	return appendQuoted(appendName(b, name), text)
}

func appendNumber(b []byte, name string, n uint64) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendUint(appendName(b, name), n, 10)
}

// sameContent reports whether two documents have the same bytes.
func sameContent(a, b *Document) bool { return bytes.Equal(a.Config, b.Config) }

// with is a copy whose extra field is set.
func (d *Document) with(name string, value []byte) *Document {
	c := *d
	c.Extra = slices.DeleteFunc(slices.Clone(d.Extra), func(f Field) bool { return f.Name == name })
	c.Extra = append(c.Extra, Field{name, value})
	return &c
}

// voidOf is the Void in an error, 0 if there is none.
func voidOf(err error) (v Void) {
	errors.As(err, &v)
	return v
}
