package registry

import (
	"maps"
	"slices"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// serveControl answers the requests on the session's first channel, one after
// another, until the client or the session ends. A frame that is no request ends
// the session, and so does one without an id: no answer could name it.
func (s *session) serveControl() error {
	for {
		body, err := s.control.Next()
		if err != nil {
			return err
		}
		f, err := protocol.Parse(body)
		if err != nil {
			return err
		}
		answer, err := s.handle(f)
		if err != nil {
			return err
		}
		if err := s.tell(s.ctx, s.control, answer); err != nil {
			return err
		}
	}
}

func (s *session) handle(f protocol.Frame) (protocol.Frame, error) {
	if f, ok := f.(*protocol.Ping); ok {
		return &protocol.Done{ID: f.ID}, f.Check()
	}
	op, id, topic := operation(f)
	if op == 0 {
		return nil, protocol.Errorf(protocol.ErrMalformed, "a frame of type %d is no request", f.Type())
	}
	if id == 0 {
		return nil, protocol.Errorf(protocol.ErrInvalid, "a request of type %d with id 0", f.Type())
	}
	began := time.Now()
	answer, refused := s.answer(op, topic, f)
	if refused != nil {
		s.refused(op, topic, refused)
		return failure(id, refused), nil
	}
	s.r.observer.answered(op, began)
	return answer, nil
}

// operation tells what a request is; 0 = it is none.
func operation(f protocol.Frame) (op Op, id uint64, topic string) {
	switch f := f.(type) {
	case *protocol.GetFence:
		return OpGetFence, f.ID, f.Topic
	case *protocol.SetFence:
		return OpSetFence, f.ID, f.Topic
	case *protocol.Join:
		return OpJoin, f.ID, first(f.Topics)
	case *protocol.GetJoined:
		return OpGetJoined, f.ID, ""
	case *protocol.GetInbox:
		return OpGetInbox, f.ID, f.Topic
	case *protocol.ClearInbox:
		return OpClearInbox, f.ID, ""
	case *protocol.GetInfo:
		return OpGetInfo, f.ID, ""
	case *protocol.GetNodes:
		return OpGetNodes, f.ID, f.Topic
	case *protocol.GetTopics:
		return OpGetTopics, f.ID, f.Pattern
	}
	return operatorsOperation(f)
}

func operatorsOperation(f protocol.Frame) (op Op, id uint64, topic string) {
	switch f := f.(type) {
	case *protocol.CreateToken:
		return OpOperate, f.ID, ""
	case *protocol.GetTokens:
		return OpOperate, f.ID, ""
	case *protocol.RevokeToken:
		return OpOperate, f.ID, ""
	case *protocol.SetKey:
		return OpOperate, f.ID, ""
	case *protocol.GetKeys:
		return OpOperate, f.ID, ""
	case *protocol.ForgetNode:
		return OpOperate, f.ID, ""
	case *protocol.PurgeTopic:
		return OpOperate, f.ID, f.Topic
	case *protocol.DeleteTopic:
		return OpOperate, f.ID, f.Topic
	}
	return 0, 0, ""
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

func (s *session) answer(op Op, topic string, f protocol.Frame) (protocol.Frame, *protocol.Error) {
	if f, ok := f.(interface{ Check() error }); ok {
		if err := f.Check(); err != nil {
			return nil, refusal(err, protocol.ErrInvalid)
		}
	}
	if refused := s.before(op, topic); refused != nil {
		return nil, refused
	}
	switch f := f.(type) {
	case *protocol.GetFence:
		return s.getFence(f)
	case *protocol.SetFence:
		return s.setFence(f)
	case *protocol.Join:
		return s.join(f)
	case *protocol.GetJoined:
		return s.getJoined(f)
	case *protocol.GetInbox:
		return s.getInbox(f)
	case *protocol.ClearInbox:
		return s.clearInbox(f)
	case *protocol.GetInfo:
		return s.getInfo(f)
	case *protocol.GetNodes:
		return s.getNodes(f)
	case *protocol.GetTopics:
		return s.getTopics(f)
	}
	return s.operate(f)
}

func (s *session) getFence(f *protocol.GetFence) (protocol.Frame, *protocol.Error) {
	if refused := s.allow(Request{Right: RightSubscribe, Topic: f.Topic}); refused != nil {
		return nil, refused
	}
	var is protocol.Fence
	if refused := s.r.seq.latest(func(b *broker) { is = b.fence(f.Topic) }); refused != nil {
		return nil, refused
	}
	return s.fenceState(f.ID, f.Topic, is), nil
}

func (s *session) setFence(f *protocol.SetFence) (protocol.Frame, *protocol.Error) {
	if refused := s.allow(Request{Right: RightAdmin, Topic: f.Topic}); refused != nil {
		return nil, refused
	}
	var is protocol.Fence
	refused := s.r.seq.change(func(b *broker, _ protocol.Time) (fault *protocol.Error) {
		is, fault = b.setFence(s.caller.Node, f.Topic, f.Epoch, f.K)
		return fault
	})
	if refused != nil {
		return nil, refused
	}
	return s.fenceState(f.ID, f.Topic, is), nil
}

func (s *session) fenceState(id uint64, topic string, f protocol.Fence) protocol.Frame {
	return &protocol.FenceState{ID: id, Topic: topic, Epoch: s.r.epoch.ID, K: f.K, S: f.S}
}

func (s *session) join(f *protocol.Join) (protocol.Frame, *protocol.Error) {
	for _, topic := range f.Topics {
		if f.Leave {
			break
		}
		if refused := s.allow(Request{Right: RightSubscribe, Topic: topic}); refused != nil {
			return nil, refused
		}
	}
	refused := s.r.seq.change(func(b *broker, now protocol.Time) *protocol.Error {
		return b.join(now, s.caller.Node, f.Topics, f.Leave)
	})
	return &protocol.Done{ID: f.ID}, refused
}

// entryRoom is for the numbers and heads of an entry of a list.
const entryRoom = 64

func (s *session) getJoined(f *protocol.GetJoined) (protocol.Frame, *protocol.Error) {
	limit := s.entries(f.Limit)
	var topics []string
	s.r.seq.view(func(b *broker) { topics = b.joined(s.caller.Node, f.After, limit+1) })
	n := s.cut(len(topics), limit, func(i int) int { return len(topics[i]) + 3 })
	answer := &protocol.JoinedPage{ID: f.ID, Topics: topics[:n]}
	if n < len(topics) {
		answer.Next = topics[n-1]
	}
	return answer, nil
}

// entries is how many entries a page has at most: as many as were asked for, and
// not more than fit a page when they are small.
func (s *session) entries(asked uint64) int {
	most := uint64(max(1, s.r.limits.Page/4))
	if asked == 0 {
		return int(most)
	}
	return int(min(asked, most))
}

// cut is how many of n entries make a page: not more than limit, and, but for
// the first, not more bytes than a page has.
func (s *session) cut(n, limit int, size func(i int) int) int {
	room := s.r.limits.Page
	for i := range min(n, limit) {
		if room -= size(i); room < 0 && i > 0 {
			return i
		}
	}
	return min(n, limit)
}

func (s *session) getInbox(f *protocol.GetInbox) (protocol.Frame, *protocol.Error) {
	var joined map[string]struct{}
	answer, after := &protocol.InboxPage{ID: f.ID}, f.After
	refused := s.r.seq.steady(func(b *broker) {
		joined = b.joinedSet(s.caller.Node)
		if !f.All {
			after = max(after, b.cursor(s.caller.Node))
		}
		// In the same step: who clears up to Head must have been shown all topics
		// that were joined by then.
		answer.Head = s.r.seq.headSeq()
	})
	if refused != nil {
		return nil, refused
	}
	p := Page{MaxRecords: s.entries(0), MaxBytes: s.r.limits.Page}
	topics, direct := s.inboxOf(joined, f.Topic)
	next, err := inboxPage(s.r.log, topics, direct, after, int(min(f.Limit, 1<<31-1)), &p)
	if err != nil {
		return nil, refusal(err, protocol.ErrInternal)
	}
	n := s.cut(len(p.Records), len(p.Records), func(i int) int { return len(p.Records[i].Frame()) + protocol.MaxKey })
	if n < len(p.Records) {
		next = p.Records[n-1].Seq
	}
	for _, r := range p.Records[:n] {
		m := r.Message
		if m.Sender != s.caller.Node {
			m.Key = nil
		}
		answer.Messages = append(answer.Messages, m)
	}
	answer.Next, answer.Truncated = next, p.Truncated
	return answer, nil
}

// inboxOf narrows an inbox to one topic, if one is asked for, and to what the
// node may read.
func (s *session) inboxOf(joined map[string]struct{}, only string) (topics map[string]struct{}, direct protocol.NodeID) {
	if only == "" {
		direct = s.caller.Node
	} else {
		_, ok := joined[only]
		joined = nil
		if ok {
			joined = map[string]struct{}{only: {}}
		}
	}
	if s.r.o.Access == nil {
		return joined, direct
	}
	joined = maps.Clone(joined)
	maps.DeleteFunc(joined, func(topic string, _ struct{}) bool {
		return s.allow(Request{Right: RightSubscribe, Topic: topic}) != nil
	})
	return joined, direct
}

func (s *session) clearInbox(f *protocol.ClearInbox) (protocol.Frame, *protocol.Error) {
	refused := s.r.seq.change(func(b *broker, _ protocol.Time) *protocol.Error {
		b.clearInbox(s.caller.Node, f.UpTo)
		return nil
	})
	return &protocol.Done{ID: f.ID}, refused
}

func (s *session) getInfo(f *protocol.GetInfo) (protocol.Frame, *protocol.Error) {
	answer := s.r.Info()
	answer.ID = f.ID
	return &answer, nil
}

func (s *session) getNodes(f *protocol.GetNodes) (protocol.Frame, *protocol.Error) {
	if f.Topic != "" {
		if refused := s.allow(Request{Right: RightSubscribe, Topic: f.Topic}); refused != nil {
			return nil, refused
		}
	}
	limit := s.entries(f.Limit)
	var nodes []protocol.Node
	s.r.seq.view(func(b *broker) { nodes = b.nodes(f.After, limit+1, f.Topic) })
	n := s.cut(len(nodes), limit, func(i int) int { return nodeSize(&nodes[i]) })
	answer := &protocol.NodesPage{ID: f.ID, Nodes: nodes[:n]}
	if n < len(nodes) {
		answer.Next = nodes[n-1].ID
	}
	return answer, nil
}

func nodeSize(n *protocol.Node) int {
	size := entryRoom + len(n.Key) + len(n.Name)
	for _, tag := range n.Tags {
		size += len(tag) + 2
	}
	return size
}

// getTopics lists what the node may read. A page may be short, or empty, and not
// be the last.
func (s *session) getTopics(f *protocol.GetTopics) (protocol.Frame, *protocol.Error) {
	pattern := f.Pattern
	if pattern == "" {
		pattern = "*"
	}
	limit := min(s.entries(f.Limit), 1000)
	found, err := s.r.log.Topics(f.After, limit+1)
	if err != nil {
		return nil, refusal(err, protocol.ErrInternal)
	}
	n := s.cut(len(found), limit, func(i int) int { return entryRoom + len(found[i].Topic) })
	answer := &protocol.TopicsPage{ID: f.ID}
	if n < len(found) {
		answer.Next = found[n-1].Topic
	}
	found = slices.DeleteFunc(found[:n], func(t TopicStats) bool {
		return !protocol.Match(pattern, t.Topic) || s.allow(Request{Right: RightSubscribe, Topic: t.Topic}) != nil
	})
	s.r.seq.view(func(b *broker) {
		for _, t := range found {
			answer.Topics = append(answer.Topics, protocol.Topic{
				Name: t.Topic, Messages: uint64(t.Messages), Bytes: uint64(t.Bytes), Last: t.Last, Fence: b.fence(t.Topic),
			})
		}
	})
	return answer, nil
}
