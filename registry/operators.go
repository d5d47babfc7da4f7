package registry

import (
	"slices"

	"github.com/pilotgo/pilotgo/protocol"
)

// operate answers the requests of operators.
func (s *session) operate(f protocol.Frame) (protocol.Frame, *protocol.Error) {
	switch f := f.(type) {
	case *protocol.CreateToken:
		return s.createToken(f)
	case *protocol.GetTokens:
		return s.getTokens(f)
	case *protocol.RevokeToken:
		return s.revokeToken(f)
	case *protocol.SetKey:
		return s.setKey(f)
	case *protocol.GetKeys:
		return s.getKeys(f)
	case *protocol.ForgetNode:
		return s.forgetNode(f)
	case *protocol.PurgeTopic:
		return s.purgeTopic(f)
	case *protocol.DeleteTopic:
		return s.deleteTopic(f)
	}
	return nil, protocol.Errorf(protocol.ErrUnsupported, "frame of type %d", f.Type())
}

// mayOperate asks for the right to change the registry itself, or with a topic
// that topic.
func (s *session) mayOperate(topic string) *protocol.Error {
	return s.allow(Request{Right: RightAdmin, Topic: topic})
}

func (s *session) createToken(f *protocol.CreateToken) (protocol.Frame, *protocol.Error) {
	if refused := s.mayOperate(""); refused != nil {
		return nil, refused
	}
	return s.changeToken(f.ID, func(b *broker, now protocol.Time) (protocol.TokenEntry, *protocol.Error) {
		return b.createToken(now, f)
	})
}

func (s *session) revokeToken(f *protocol.RevokeToken) (protocol.Frame, *protocol.Error) {
	if refused := s.mayOperate(""); refused != nil {
		return nil, refused
	}
	return s.changeToken(f.ID, func(b *broker, _ protocol.Time) (protocol.TokenEntry, *protocol.Error) {
		return b.revokeToken(f.Token)
	})
}

func (s *session) changeToken(id uint64, change func(*broker, protocol.Time) (protocol.TokenEntry, *protocol.Error)) (protocol.Frame, *protocol.Error) {
	answer := &protocol.TokensPage{ID: id}
	refused := s.r.seq.change(func(b *broker, now protocol.Time) *protocol.Error {
		is, fault := change(b, now)
		answer.Tokens = []protocol.TokenEntry{is}
		return fault
	})
	return answer, refused
}

func (s *session) getTokens(f *protocol.GetTokens) (protocol.Frame, *protocol.Error) {
	if refused := s.mayOperate(""); refused != nil {
		return nil, refused
	}
	limit := s.entries(f.Limit)
	var list []protocol.TokenEntry
	s.r.seq.view(func(b *broker) { list = b.tokenEntries(f.After, limit+1) })
	n := s.cut(len(list), limit, func(i int) int {
		return entryRoom + len(list[i].Note) + textsSize(list[i].Labels)
	})
	answer := &protocol.TokensPage{ID: f.ID, Tokens: list[:n]}
	if n < len(list) {
		answer.Next = slices.Clone(list[n-1].ID[:])
	}
	return answer, nil
}

func textsSize(list []string) (size int) {
	for _, text := range list {
		size += len(text) + 2
	}
	return size
}

func (s *session) setKey(f *protocol.SetKey) (protocol.Frame, *protocol.Error) {
	if refused := s.mayOperate(""); refused != nil {
		return nil, refused
	}
	answer := &protocol.KeysPage{ID: f.ID}
	refused := s.r.seq.change(func(b *broker, now protocol.Time) *protocol.Error {
		is, fault := b.setKey(now, f)
		answer.Keys = []protocol.KeyEntry{is}
		return fault
	})
	return answer, refused
}

func (s *session) getKeys(f *protocol.GetKeys) (protocol.Frame, *protocol.Error) {
	if refused := s.mayOperate(""); refused != nil {
		return nil, refused
	}
	limit := s.entries(f.Limit)
	var list []protocol.KeyEntry
	s.r.seq.view(func(b *broker) { list = b.keyEntries(f.After, limit+1) })
	n := s.cut(len(list), limit, func(i int) int { return entryRoom + textsSize(list[i].Labels) })
	answer := &protocol.KeysPage{ID: f.ID, Keys: list[:n]}
	if n < len(list) {
		answer.Next = slices.Clone(list[n-1].Key[:])
	}
	return answer, nil
}

func (s *session) forgetNode(f *protocol.ForgetNode) (protocol.Frame, *protocol.Error) {
	if refused := s.mayOperate(""); refused != nil {
		return nil, refused
	}
	refused := s.r.seq.change(func(b *broker, _ protocol.Time) *protocol.Error { return b.forgetNode(f.Node) })
	return &protocol.Done{ID: f.ID}, refused
}

func (s *session) purgeTopic(f *protocol.PurgeTopic) (protocol.Frame, *protocol.Error) {
	if refused := s.mayOperate(f.Topic); refused != nil {
		return nil, refused
	}
	if refused := s.purge(f.Topic, f.UpTo, nil); refused != nil {
		return nil, refused
	}
	return &protocol.Done{ID: f.ID}, nil
}

func (s *session) deleteTopic(f *protocol.DeleteTopic) (protocol.Frame, *protocol.Error) {
	if refused := s.mayOperate(f.Topic); refused != nil {
		return nil, refused
	}
	leave := func(b *broker) {
		for _, node := range slices.Clone(b.joinedBy[f.Topic]) {
			_ = b.join(b.time, node, []string{f.Topic}, true) // leaving has no faults
		}
	}
	if refused := s.purge(f.Topic, 0, leave); refused != nil {
		return nil, refused
	}
	return &protocol.Done{ID: f.ID}, nil
}

// purge drops a topic's messages up to a seq, or 0 for all that readers may read.
// The log is asked between two batches, as it is for what is too old.
func (s *session) purge(topic string, upTo protocol.Seq, also func(*broker)) *protocol.Error {
	var fault *protocol.Error
	ahead := func() {
		head := s.r.seq.headSeq()
		if upTo == 0 || upTo > head {
			upTo = head
		}
		s.r.seq.drop(
			func() error { return s.r.log.Purge(topic, upTo) },
			func(l PipelinedLog) (<-chan error, error) { return l.BeginPurge(topic, upTo) },
			func(err error) {
				s.r.lines.warn("topic not purged", "topic", topic, "error", err)
				fault = refusal(err, protocol.ErrInternal)
			},
		)
	}
	return s.r.seq.do(&job{ahead: ahead, change: func(b *broker, _ protocol.Time) *protocol.Error {
		if fault == nil && also != nil {
			also(b)
		}
		return fault
	}})
}
