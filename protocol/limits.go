package protocol

// Maximums; the package comment has the table. Sizes are in bytes.
const (
	MaxTopic = 1024 // a topic or pattern
	MaxName  = 255  // a node's name, and each of its tags
	MaxTags  = 16   // tags of a node
	MaxToken = 4096 // a join token
	MaxKey   = 32   // an idempotency key
	MaxSlot  = 32   // a replace slot
	MaxLabel = 64   // a label of a key

	DefaultPayload = 1 << 20  // a payload, unless the operator said otherwise
	MaxPayload     = 16 << 20 // a payload, whatever the operator said
	MaxPage        = 16 << 20 // a page of a list, whatever the operator said
	MaxFirstFrame  = 64 << 10 // the first frame of a channel, and the answer to Hello
	FrameOverhead  = 64 << 10 // a frame above the session's largest payload

	MaxDepth       = 8         // arrays in one another, the frame being the first
	MaxConditions  = 2         // conditions of a publish
	MaxTerm        = 1<<53 - 1 // a term; above it jq and JavaScript lose digits
	MaxJoin        = 256       // topics in one Join
	MaxSuccessions = 32        // keys of a registry before its present one
	MaxLabels      = 16        // labels of a key
)

// MaxFrame is the largest frame of a session besides pages of lists.
func (l Limits) MaxFrame() int {
	return int(min(l.Payload, MaxPayload)) + FrameOverhead
}

// MaxPageFrame is the largest frame that a registry sends on the control
// channel: a page is full once it is above the limit.
func (l Limits) MaxPageFrame() int {
	return l.MaxFrame() + int(min(l.Page, MaxPage))
}

func tooLarge(what string, have, most int) error {
	return Errorf(ErrTooLarge, "%d %s, maximum %d", have, what, most)
}
