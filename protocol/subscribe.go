package protocol

// Source is what a subscription reads.
type Source uint64

// The sources.
const (
	SourcePattern Source = 0 // messages on topics that the pattern matches
	SourceInbox   Source = 1 // this node's joined topics and direct messages
)

// StartKind is where a subscription begins.
type StartKind uint64

// The starts.
const (
	StartNew   StartKind = 0 // only what comes after
	StartLast  StartKind = 1 // the newest message of each topic, then what comes after
	StartAll   StartKind = 2 // all that is retained
	StartAfter StartKind = 3 // all that is retained after seq After
	StartSince StartKind = 4 // all that is retained with registry time Since or later
)

// Subscribe makes a channel a subscription: the first frame on it. The registry
// answers Subscribed, then Gap, Deliver and CaughtUp as they come, or Fail.
type Subscribe struct {
	Source  Source
	Pattern string // "" with SourceInbox
	Start   StartKind
	Since   Time // with StartSince

	// After is the position: with StartAfter where to begin; with any start of a
	// resumed subscription the highest seq it has scanned.
	After Seq

	// Epoch is the one After belongs to; 0 when the subscription is new. When it
	// is not the log's, After means nothing there: the registry begins at the
	// start of its log, and Subscribed tells the new epoch.
	Epoch EpochID
	Extra Extra
}

var subscribeSpec = spec[Subscribe]{TypeSubscribe, 6,
	func(e *encoder, f *Subscribe) {
		e.uint(uint64(f.Source))
		e.text(f.Pattern)
		e.uint(uint64(f.Start))
		e.uint(uint64(f.Since))
		e.uint(uint64(f.After))
		e.uint(uint64(f.Epoch))
	},
	func(d *decoder, f *Subscribe) {
		f.Source = Source(d.uint())
		f.Pattern = d.text()
		f.Start = StartKind(d.uint())
		f.Since = Time(d.uint())
		f.After = Seq(d.uint())
		f.Epoch = EpochID(d.uint())
	},
	func(f *Subscribe) *Extra { return &f.Extra }}

// Subscribed accepts a subscription.
type Subscribed struct {
	Epoch    Epoch
	Position Seq    // what follows has a higher seq
	Narrowed uint64 // 1 = the pattern also matches topics this node may not read; they are left out
	Extra    Extra
}

var subscribedSpec = spec[Subscribed]{TypeSubscribed, 4,
	func(e *encoder, f *Subscribed) {
		e.uint(uint64(f.Epoch.ID))
		e.uint(f.Epoch.Born)
		e.uint(uint64(f.Position))
		e.uint(f.Narrowed)
	},
	func(d *decoder, f *Subscribed) {
		f.Epoch.ID = EpochID(d.uint())
		f.Epoch.Born = d.uint()
		f.Position = Seq(d.uint())
		f.Narrowed = d.uint()
	},
	func(f *Subscribed) *Extra { return &f.Extra }}

// CaughtUp follows the retained part of a subscription, once after its start and
// once after each resume: what came before it is history.
type CaughtUp struct {
	Seq   Seq   // the log was scanned up to here
	Fence Fence // of the pattern's topic, when the pattern is one
	Extra Extra
}

var caughtUpSpec = spec[CaughtUp]{TypeCaughtUp, 3,
	func(e *encoder, f *CaughtUp) {
		e.uint(uint64(f.Seq))
		e.uint(f.Fence.K)
		e.uint(uint64(f.Fence.S))
	},
	func(d *decoder, f *CaughtUp) {
		f.Seq = Seq(d.uint())
		f.Fence.K = d.uint()
		f.Fence.S = Seq(d.uint())
	},
	func(f *CaughtUp) *Extra { return &f.Extra }}

// Gap tells that messages of this subscription with a seq in From … To may have
// left the log before they were delivered. Those still kept follow, in order.
type Gap struct {
	From, To Seq
	Extra    Extra
}

var gapSpec = spec[Gap]{TypeGap, 2,
	func(e *encoder, f *Gap) { e.uint(uint64(f.From)); e.uint(uint64(f.To)) },
	func(d *decoder, f *Gap) { f.From = Seq(d.uint()); f.To = Seq(d.uint()) },
	func(f *Gap) *Extra { return &f.Extra }}

func (f *Subscribe) Type() FrameType  { return TypeSubscribe }
func (f *Subscribed) Type() FrameType { return TypeSubscribed }
func (f *CaughtUp) Type() FrameType   { return TypeCaughtUp }
func (f *Gap) Type() FrameType        { return TypeGap }

func (f *Subscribe) Append(b []byte) []byte  { return subscribeSpec.append(b, f) }
func (f *Subscribed) Append(b []byte) []byte { return subscribedSpec.append(b, f) }
func (f *CaughtUp) Append(b []byte) []byte   { return caughtUpSpec.append(b, f) }
func (f *Gap) Append(b []byte) []byte        { return gapSpec.append(b, f) }
