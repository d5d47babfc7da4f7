package election

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/pilotgo/pilotgo/protocol"
)

// The longest of what is read. Longer payloads are void, longer ids too.
const (
	MaxPayload = 64 << 10
	maxID      = 128
	maxStamp   = 64
)

// Kind is what a message of the topic says.
type Kind uint8

// The kinds, with the recipe's names for them.
const (
	KindCandidacy Kind = iota + 1 // "election": the candidate stands
	KindClaim                     // "leader": it leads from now on
	KindHeartbeat                 // "heartbeat": it still does
	KindResign                    // "resign", ours: it does no more; unstamped, somebody asks it to
)

var kindNames = map[Kind]string{
	KindCandidacy: "election", KindClaim: "leader", KindHeartbeat: "heartbeat", KindResign: "resign",
}

func (k Kind) String() string { return kindNames[k] }

// Message is a message of the topic.
type Message struct {
	Kind     Kind
	Node     string  // the candidate or leader that is named
	Term     uint64  // 1 … protocol.MaxTerm
	Priority int64   // of a candidacy; DefaultPriority where it has none
	Stamp    string  // elected_at or timestamp as it was written, for display
	Clock    float64 // Stamp in unix seconds; 0 when it cannot be read

	// Ours; scripts have none.
	Instance  protocol.Instance
	Seen      protocol.Seq // in a candidacy: the last stamped message that was read
	Successor string       // in a resign
}

// Void is why a message counts for nothing. It is an error too.
type Void uint8

// Why a message is void.
const (
	VoidMalformed Void = iota + 1 // no JSON object, or too long
	VoidType                      // not one of the recipe's types
	VoidNode                      // names nobody, or with more than an id
	VoidTerm                      // the term is no integer in range, or missing
	VoidPriority                  // the priority is no integer
	VoidSender                    // sent by another node than it names
	VoidHighTerm                  // a plain term so high that few would be left above it
	VoidOldTerm                   // a term that was decided before
	VoidDecided                   // another leader has this term
	VoidLed                       // plain, and there is a live leader behind the fence
	VoidHeld                      // plain, and scripts have been waited for once, or the election runs
	VoidRepeated                  // a heartbeat that is not newer than the one before, or a message again
	VoidIgnored                   // plain, and this group does not follow scripts
	VoidStranger                  // a resign of another than the leader's instance
	VoidTwin                      // not void: another process with this member's node id
	VoidExhausted                 // not void: there is no term left
)

var voidNames = [...]string{
	VoidMalformed: "malformed", VoidType: "unknown type", VoidNode: "no node", VoidTerm: "bad term",
	VoidPriority: "bad priority", VoidSender: "not by the node it names", VoidHighTerm: "term too high",
	VoidOldTerm: "old term", VoidDecided: "term has another leader", VoidLed: "there is a leader",
	VoidHeld: "held already", VoidRepeated: "repeated", VoidIgnored: "plain messages are ignored",
	VoidStranger: "not the leader's instance", VoidTwin: "duplicate node id", VoidExhausted: "no term left",
}

func (v Void) String() string {
	if int(v) < len(voidNames) {
		return voidNames[v]
	}
	return "void " + strconv.Itoa(int(v))
}

func (v Void) Error() string { return "election message: " + v.String() }

// Parse reads a payload. Fields may be missing, but for the type, the node and
// the term; unknown ones are passed over. Every error is a [Void].
func Parse(payload []byte) (Message, error) {
	m, err := parseStamped(payload)
	if err == nil && m.Term == 0 {
		err = VoidTerm
	}
	return m, err
}

// parseStamped is Parse for messages that passed the fence of their topic: a
// term in the payload that is missing or cannot be read is 0.
func parseStamped(payload []byte) (Message, error) {
	if len(payload) > MaxPayload {
		return Message{}, VoidMalformed
	}
	// A map and not a struct: names are compared by case here, as jq does.
	var f fields
	if err := json.Unmarshal(payload, &f); err != nil || f == nil {
		return Message{}, VoidMalformed
	}
	return f.message()
}

type fields map[string]json.RawMessage

func (f fields) message() (Message, error) {
	var m Message
	name, stamp := "leader", "timestamp"
	switch f.text("type") {
	case "election":
		m.Kind, name = KindCandidacy, "candidate"
	case "leader":
		m.Kind, stamp = KindClaim, "elected_at"
	case "heartbeat":
		m.Kind = KindHeartbeat
	case "resign":
		m.Kind = KindResign
	default:
		return m, VoidType
	}
	if m.Node = f.id(name); m.Node == "" {
		return m, VoidNode
	}
	if t, ok := f.integer("term"); ok && t > 0 {
		m.Term = uint64(t)
	}
	var ok bool
	if m.Priority, ok = f.priority(m); !ok {
		return m, VoidPriority
	}
	m.Stamp = f.scalar(stamp)
	m.Clock = clockOf(m.Stamp)
	m.Instance = instanceOf(f.text("instance"))
	if m.Kind == KindCandidacy {
		if n, ok := f.integer("seen"); ok && n > 0 {
			m.Seen = protocol.Seq(n)
		}
	}
	if m.Kind == KindResign {
		m.Successor = f.id("successor")
	}
	return m, nil
}

// text is a field that is a string, or nothing.
func (f fields) text(name string) string {
	var s string
	if raw := f[name]; len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &s) == nil {
		return s
	}
	return ""
}

// scalar is a string or the text of a number.
func (f fields) scalar(name string) string {
	raw := string(f[name])
	if !isNumber(raw) {
		raw = f.text(name)
	}
	if len(raw) > maxStamp {
		return ""
	}
	return raw
}

// id is a node: a string, or a number as its decimal text.
func (f fields) id(name string) string {
	id := f.text(name)
	if n, ok := f.integer(name); ok {
		id = strconv.FormatInt(n, 10)
	}
	if len(id) > maxID || strings.ContainsFunc(id, unicode.IsControl) {
		return ""
	}
	return id
}

// integer is a number without a fraction whose size is at most MaxTerm.
func (f fields) integer(name string) (int64, bool) {
	raw := string(f[name])
	if !isNumber(raw) {
		return 0, false
	}
	n, err := strconv.ParseInt(raw, 10, 64)
	if err != nil { // 1e3, or far too large
		x, err := strconv.ParseFloat(raw, 64)
		if err != nil || x != math.Trunc(x) || math.Abs(x) > protocol.MaxTerm {
			return 0, false
		}
		n = int64(x)
	}
	return n, -protocol.MaxTerm <= n && n <= protocol.MaxTerm
}

// priority is the default one when the field is missing. Only a candidacy must
// be right about it.
func (f fields) priority(m Message) (int64, bool) {
	if raw := string(f["priority"]); raw != "" && raw != "null" {
		if n, ok := f.integer("priority"); ok || m.Kind == KindCandidacy {
			return n, ok
		}
	}
	return DefaultPriority(m.Node), true
}

// isNumber tells a valid JSON value that is a number from the others.
func isNumber(raw string) bool {
	return raw != "" && (raw[0] == '-' || '0' <= raw[0] && raw[0] <= '9')
}

// clockOf reads unix seconds or RFC 3339.
func clockOf(stamp string) float64 {
	if strings.Trim(stamp, "0123456789.eE+-") == "" {
		if x, err := strconv.ParseFloat(stamp, 64); err == nil {
			return x
		}
		return 0
	}
	t, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil {
		return 0
	}
	return float64(t.Unix()) + float64(t.Nanosecond())/1e9
}

func instanceOf(text string) (i protocol.Instance) {
	if b, err := hex.DecodeString(text); err == nil && len(b) == len(i) {
		copy(i[:], b)
	}
	return i
}

// Append appends the payload in the recipe's form, ours behind it. wall is the
// time to show in it.
func (m Message) Append(b []byte, wall time.Time) []byte {
	name := "leader"
	if m.Kind == KindCandidacy {
		name = "candidate"
	}
	b = appendString(append(b, `{"type":`...), m.Kind.String())
	b = appendString(append(b, `,"`+name+`":`...), m.Node)
	if m.Kind == KindCandidacy {
		b = strconv.AppendInt(append(b, `,"priority":`...), m.Priority, 10)
	}
	b = strconv.AppendUint(append(b, `,"term":`...), m.Term, 10)
	switch m.Kind {
	case KindClaim:
		b = appendString(append(b, `,"elected_at":`...), wall.UTC().Format(time.RFC3339))
	case KindHeartbeat:
		b = appendString(append(b, `,"timestamp":`...), strconv.FormatInt(wall.Unix(), 10))
	case KindResign:
		if m.Successor != "" {
			b = appendString(append(b, `,"successor":`...), m.Successor)
		}
	case KindCandidacy:
		if m.Seen != 0 {
			b = strconv.AppendUint(append(b, `,"seen":`...), uint64(m.Seen), 10)
		}
	}
	if (m.Kind == KindClaim || m.Kind == KindHeartbeat) && m.Priority != DefaultPriority(m.Node) {
		b = strconv.AppendInt(append(b, `,"priority":`...), m.Priority, 10)
	}
	if m.Instance != (protocol.Instance{}) {
		b = appendString(append(b, `,"instance":`...), m.Instance.String())
	}
	return append(b, '}')
}

func appendString(b []byte, s string) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string has a JSON form
	}
	return append(b, text...)
}

// A key is the idempotency key of a member's publish: its instance and the
// number of the attempt.
type key struct {
	Instance protocol.Instance
	Attempt  uint64
}

const keySize = len(protocol.Instance{}) + 8

// Append appends the key's bytes.
func (k key) Append(b []byte) []byte {
	b = append(b, k.Instance[:]...)
	for shift := 56; shift >= 0; shift -= 8 {
		b = append(b, byte(k.Attempt>>shift))
	}
	return b
}

// parseKey reads a key; what is none is the zero key.
func parseKey(b []byte) (k key) {
	if len(b) != keySize {
		return key{}
	}
	copy(k.Instance[:], b)
	for _, c := range b[len(k.Instance):] {
		k.Attempt = k.Attempt<<8 | uint64(c)
	}
	return k
}
