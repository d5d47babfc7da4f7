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

// Type is TypeSubscribe.
func (f *Subscribe) Type() FrameType { return TypeSubscribe }

// Append appends the frame.
func (f *Subscribe) Append(b []byte) []byte { return appendFrame(b, f) }

func (f *Subscribe) fields(c *codec) {
	number(c, &f.Source)
	c.text(&f.Pattern)
	number(c, &f.Start)
	number(c, &f.Since)
	number(c, &f.After)
	number(c, &f.Epoch)
	c.extra(&f.Extra)
}

// Check reports what is wrong with the frame as a request: ErrInvalidPattern or
// ErrInvalid.
func (f *Subscribe) Check() error {
	switch {
	case f.Source > SourceInbox:
		return Errorf(ErrInvalid, "source %d", f.Source)
	case f.Start > StartSince:
		return Errorf(ErrInvalid, "start %d", f.Start)
	case f.Source == SourcePattern:
		return ValidPattern(f.Pattern)
	case f.Pattern != "":
		return Errorf(ErrInvalid, "an inbox has no pattern")
	}
	return nil
}

// Subscribed accepts a subscription.
type Subscribed struct {
	Epoch    Epoch
	Position Seq  // what follows has a higher seq
	Narrowed bool // the pattern also matches topics this node may not read; they are left out
	Extra    Extra
}

// Type is TypeSubscribed.
func (f *Subscribed) Type() FrameType { return TypeSubscribed }

// Append appends the frame.
func (f *Subscribed) Append(b []byte) []byte { return appendFrame(b, f) }

func (f *Subscribed) fields(c *codec) {
	number(c, &f.Epoch.ID)
	number(c, &f.Epoch.Born)
	number(c, &f.Position)
	c.flag(&f.Narrowed)
	c.extra(&f.Extra)
}

// CaughtUp follows the retained part of a subscription, once after its start and
// once after each resume: what came before it is history.
type CaughtUp struct {
	Seq   Seq   // the log was scanned up to here
	Fence Fence // of the pattern's topic, when the pattern is one
	Extra Extra
}

// Type is TypeCaughtUp.
func (f *CaughtUp) Type() FrameType { return TypeCaughtUp }

// Append appends the frame.
func (f *CaughtUp) Append(b []byte) []byte { return appendFrame(b, f) }

func (f *CaughtUp) fields(c *codec) {
	number(c, &f.Seq)
	c.fence(&f.Fence)
	c.extra(&f.Extra)
}

// Gap tells that messages of this subscription with a seq in From … To may have
// left the log before they were delivered. Those still kept follow, in order.
type Gap struct {
	From, To Seq
	Extra    Extra
}

// Type is TypeGap.
func (f *Gap) Type() FrameType { return TypeGap }

// Append appends the frame.
func (f *Gap) Append(b []byte) []byte { return appendFrame(b, f) }

func (f *Gap) fields(c *codec) {
	number(c, &f.From)
	number(c, &f.To)
	c.extra(&f.Extra)
}
