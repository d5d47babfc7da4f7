package election_test

import (
	"fmt"
	"time"

	"github.com/pilotgo/pilotgo/election"
	"github.com/pilotgo/pilotgo/protocol"
)

// A member alone on an empty topic: it waits for the silence to pass, announces
// itself, reads that, waits for others, and claims. What is published here is
// read back at once.
func ExampleState_Step() {
	const node = protocol.NodeID(1 << 31)
	epoch := protocol.Epoch{ID: 1, Born: 41}
	timing := election.LAN
	timing.Jitter = 0
	s, err := election.New(election.Settings{
		Topic: "election:workers", Node: node, Instance: protocol.Instance{1}, Timing: timing,
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	var now, timer election.Time
	var seq protocol.Seq
	events := []election.Event{election.CampaignAsked{}, election.CaughtUp{Epoch: epoch}}
	for leads := false; !leads; {
		if len(events) == 0 {
			now, events = timer, append(events, election.TimerFired{})
		}
		var actions []election.Action
		s, actions = s.Step(now, events[0])
		events = events[1:]
		for _, a := range actions {
			switch a := a.(type) {
			case election.SetTimer:
				timer = a.At
			case election.Send:
				fmt.Println(time.Duration(now), a.Message.Kind, a.Message.Term)
				seq++
				events = append(events, election.MessageRead{
					Epoch: epoch, Seq: seq, Sender: node, Term: a.Condition.Term, Message: a.Message,
					Key: election.Key{Instance: protocol.Instance{1}, Attempt: a.Attempt},
				})
			case election.Lead:
				fmt.Println(time.Duration(now), "leads term", a.Token.Term)
				leads = true
			}
		}
	}

	// Output:
	// 0s election 42
	// 400ms election 42
	// 430ms leader 42
	// 430ms leads term 42
}
