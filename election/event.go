package election

import (
	"bytes"
	"errors"
	"math"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// instant is a reading of one process's monotonic clock, which must go on while the
// machine is suspended. It means nothing to another process.
type instant int64

// never is after all other times.
const never instant = math.MaxInt64

// Add returns t+d.
func (t instant) Add(d time.Duration) instant { return t + instant(d) }

// Sub returns t−u.
func (t instant) Sub(u instant) time.Duration { return time.Duration(t - u) }

// event is something that happened to a member. It is one of the types below.
type event interface{ happen(*step) }

// messageRead is the next message of the subscription; a [reader] makes one.
type messageRead struct {
	Epoch   protocol.Epoch
	Seq     protocol.Seq
	Sender  protocol.NodeID // 0 where the link does not tell
	Key     key             // of own messages
	Term    uint64          // under which it passed the topic's fence; 0 = plain
	Message Message
	Void    Void // why Message could not be parsed, or 0
}

// readingOf makes the event of a message of the topic.
func readingOf(m *protocol.Message, epoch protocol.Epoch) messageRead {
	return new(reader).reading(m, epoch)
}

// reader makes events of messages. It remembers the last payload and what that
// says: a leader's heartbeats are the same for a second, and parsing them is most
// of what a follower does. It keeps the message's payload.
type reader struct {
	payload []byte
	stamped bool
	message Message
	void    Void
}

func (r *reader) reading(m *protocol.Message, epoch protocol.Epoch) messageRead {
	e := messageRead{Epoch: epoch, Seq: m.Seq, Sender: m.Sender, Key: parseKey(m.Key), Term: m.Term()}
	if stamped := e.Term != 0; r.payload == nil || stamped != r.stamped || !bytes.Equal(m.Payload, r.payload) {
		r.parse(m.Payload, stamped)
	}
	e.Message, e.Void = r.message, r.void
	return e
}

func (r *reader) parse(payload []byte, stamped bool) {
	parse := Parse
	if stamped {
		parse = parseStamped
	}
	var err error
	r.payload, r.stamped, r.void = payload, stamped, 0
	r.message, err = parse(payload)
	errors.As(err, &r.void)
}

// caughtUp: the subscription has handed over what was retained, at its beginning
// or after a reconnect.
type caughtUp struct {
	Epoch protocol.Epoch
	Seq   protocol.Seq
	Fence protocol.Fence
}

// disconnected: the link was lost. caughtUp tells that it is back.
type disconnected struct{}

// epochBegan: the log was lost or replaced.
type epochBegan struct{ Epoch protocol.Epoch }

// gapFound: messages of the subscription left the log before they were read.
type gapFound struct{}

// acked: a publish of this member is in the log.
type acked struct {
	Attempt uint64
	Epoch   protocol.EpochID
}

// refused: a publish is not in the log and will not be. Attempt is 0 for one
// that the leader's work made under its token; Token is set then.
type refused struct {
	Attempt uint64
	Token   Token
	Code    protocol.Code
	Epoch   protocol.EpochID // the log's, on ErrStaleTerm, ErrConflict and ErrWrongEpoch
	Fence   protocol.Fence   // on ErrStaleTerm and ErrConflict
}

// answerOf makes the event of a publish's result: of its ack, which was given in
// an epoch, or of its error. What is not surely a refusal is no answer.
func answerOf(attempt uint64, epoch protocol.EpochID, err error) event {
	if err == nil {
		return acked{attempt, epoch}
	}
	var e *protocol.Error
	if errors.Is(err, protocol.ErrUnknownOutcome) || !errors.As(err, &e) || !refuses(e.Code) {
		return unanswered{attempt}
	}
	return refused{Attempt: attempt, Code: e.Code, Epoch: e.Epoch, Fence: e.Fence}
}

// refuses reports whether a registry answers so what is not in its log.
func refuses(c protocol.Code) bool {
	switch c {
	case protocol.ErrStaleTerm, protocol.ErrConflict, protocol.ErrWrongEpoch,
		protocol.ErrDenied, protocol.ErrRateLimited, protocol.ErrStorageFull, protocol.ErrTooLarge,
		protocol.ErrInvalid, protocol.ErrInvalidTopic, protocol.ErrLimit, protocol.ErrUnsupported:
		return true
	default:
		return false
	}
}

// unanswered: whether a publish is, or will be, in the log cannot be told. The
// member waits until it has read it or can lead by it no more.
type unanswered struct{ Attempt uint64 }

// timerFired: the time of the last timerAction has come. The driver hands over all
// that the subscription and the publishes have to say before it.
type timerFired struct{}

// campaignAsked makes an observer a candidate.
type campaignAsked struct{}

// withdrawAsked makes a candidate an observer. A leader ends its leadership.
type withdrawAsked struct{}

// resignAsked makes a leader hand over to Successor, or to the best candidate it
// knows. It goes on as a candidate, which stands again once another has led.
type resignAsked struct{ Successor string }

// workStopped answers cancelAction: the work under the leadership is over.
type workStopped struct{}
