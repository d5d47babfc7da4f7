package registry

import "github.com/pilotgo/pilotgo/protocol"

// Log keeps one sequence of messages and the state that belongs to it. One
// goroutine appends at a time; any number read meanwhile.
//
// Conformance is tested by package logtest.
type Log interface {
	// Epoch is the identity of this incarnation of the log.
	Epoch() protocol.Epoch

	// Head is the highest seq ever appended, and the time of that message; zero
	// while there was none.
	Head() (protocol.Seq, protocol.Time)

	// Load hands over the state kept besides messages, before the first Append.
	// The first error of a State function ends it and is returned.
	Load(State) error

	// Append stores a batch in one step and returns once it is as durable as this
	// log is. On an error nothing of the batch is stored, and it is a
	// protocol.ErrStorageFull when there is no room; reads go on then. The log
	// keeps the records, which nobody changes afterwards, but not the batch.
	//
	// Retention is applied in the same step, at the time of the last record.
	Append(*Batch) error

	// Read collects records of a selection in log order, behind after and up to
	// upTo, into page.Records[:0] until the page is full. It never blocks on
	// Append for longer than one batch takes.
	Read(sel *Selection, after, upTo protocol.Seq, page *Page) error

	// ReadNewest is Read up to the head, but of the records behind after it passes
	// over those that are neither among the newest of the selection nor among the
	// newest perTopic of their topic (or of the direct messages); the page tells
	// whether there were any. It is for selections of Topics and Direct.
	ReadNewest(sel *Selection, after protocol.Seq, newest, perTopic int, page *Page) error

	// Topic tells what is retained of one topic.
	Topic(topic string) TopicStats

	// Topics lists topics with retained messages in byte order, behind after.
	Topics(after string, limit int) ([]TopicStats, error)

	// Stats sums up the whole log.
	Stats() LogStats

	// Purge drops a topic's messages up to a seq, as retention would.
	Purge(topic string, upTo protocol.Seq) error

	// Expire drops what is too old at a time; it is for logs to which nothing is
	// appended.
	Expire(now protocol.Time) error

	// Close releases the log. It is idempotent; calls after it fail with
	// protocol.ErrClosed.
	Close() error
}

// PipelinedLog is a Log that takes the next batch while those before it are on
// their way to the disk.
type PipelinedLog interface {
	Log

	// Begin is the first half of Append, and quick: it gives the batch its place,
	// or fails as Append does, and then nothing of it is stored. The channel gets
	// one value once the batch is as durable as this log is and is read: nil. Until
	// then neither Read nor Head nor Stats know of it. Batches come to that in the
	// order of Begin.
	//
	// An error on the channel is a protocol.ErrUnknownOutcome: the batch may be in
	// the log when that is opened again. All that was begun behind it fails alike,
	// and the log takes nothing more: then Begin fails with a protocol.ErrDraining,
	// since clients had better come back to the registry that opens it again.
	//
	// Append, Purge and Expire come behind what was begun before them, and return
	// when that is done too.
	//
	// The same goroutine calls Begin and Append, and leaves the batch as it is
	// until the channel has its value.
	Begin(*Batch) (done <-chan error, err error)

	// BeginPurge and BeginExpire are the first halves of Purge and Expire, as Begin
	// is that of Append.
	BeginPurge(topic string, upTo protocol.Seq) (done <-chan error, err error)
	BeginExpire(now protocol.Time) (done <-chan error, err error)
}

// Batch is what one Append stores together.
type Batch struct {
	Records []*Record // Seq rising, above Head
	Fences  []FenceEntry
	Entries []Entry

	// KeyFloor, when above 0: keys of records up to this seq are forgotten.
	KeyFloor protocol.Seq

	// Claims are of sessions that began. A SharedLog hands them on to the other
	// registries; nobody keeps them.
	Claims []Claim
}

// FenceEntry is the new state of a topic's fence. Of two in one batch the later
// counts.
type FenceEntry struct {
	Topic string
	Fence protocol.Fence
}

// Entry is one row of a small table kept with the log: nodes, joins, inbox
// cursors. A nil Value deletes the row. Tables are named by the registry.
type Entry struct {
	Table, Key string
	Value      []byte
}

// State is what Load hands over; the order within each kind is that of the log.
// A function that is nil is not called.
type State struct {
	Fence func(FenceEntry) error
	Entry func(Entry) error

	Key   func(KeyEntry) error // oldest first, and each behind the floor
	Floor func(protocol.Seq) error
}

// KeyEntry is an idempotency key and the message it belongs to.
type KeyEntry struct {
	Sender protocol.NodeID
	Key    []byte // valid until the function returns
	Seq    protocol.Seq
	Time   protocol.Time
	Digest [16]byte
}

// Selection says which records a reader wants.
type Selection struct {
	// Pattern selects topics; "" selects none. It is a valid pattern.
	Pattern string

	// Topics selects these topics, and Direct the direct messages to this node:
	// the inbox.
	Topics map[string]struct{}
	Direct protocol.NodeID

	// Readable, when not nil, leaves out topics for which it is false. It is quick
	// and may be called under the log's locks, by the reader's goroutine.
	Readable func(topic string) bool

	// LastPerTopic keeps only the newest retained record of each topic.
	LastPerTopic bool

	// Since leaves out records with an earlier time.
	Since protocol.Time
}

// Page is one portion of a read.
type Page struct {
	Records []*Record

	// MaxRecords and MaxBytes (of payload) end a page; 0 = no maximum. It always
	// holds at least one record when there is one.
	MaxRecords, MaxBytes int

	// Scanned: there is no further record of the selection up to here.
	Scanned protocol.Seq

	// Evicted is the highest seq behind after that retention or a purge took from
	// the selection, whenever that was; 0 = none. Replaced records do not count.
	// A log may let one mark stand for many topics: Evicted is never too low, but
	// may count topics besides the selection.
	Evicted protocol.Seq

	// Truncated: ReadNewest passed over older records.
	Truncated bool
}

// TopicStats tells what is retained of a topic.
type TopicStats struct {
	Topic    string
	Messages int
	Bytes    int64 // of payload
	First    protocol.Seq
	Last     protocol.Seq
}

// LogStats sums up a log.
type LogStats struct {
	Topics, Messages int
	Bytes            int64 // of payload
	Keys             int   // idempotency keys remembered
}
