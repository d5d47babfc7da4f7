package config

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/protocol"
)

// The log is read forward only. To read it backward, windows of it are read
// forward, each behind the one before; to find a version, it is halved.

func (s *Swarm) fence(ctx context.Context) (client.FenceState, error) {
	f, err := s.conn.Fence(ctx, s.topic)
	if err != nil {
		return f, fmt.Errorf("config %q: %w", s.name, err)
	}
	return f, nil
}

// fenceIfAny is the fence, zero over a link without.
func (s *Swarm) fenceIfAny(ctx context.Context) (client.FenceState, error) {
	if !s.fenced {
		return client.FenceState{}, nil
	}
	return s.fence(ctx)
}

// read hands over what is retained on a topic until each says stop or there is no
// more. It fails with ErrWrongEpoch when the log is replaced meanwhile.
func (s *Swarm) read(ctx context.Context, topic string, each func(*protocol.Message, protocol.EpochID) (more bool), start ...client.SubscribeOption) error {
	stream, err := s.conn.Subscribe(ctx, topic, start...)
	if err != nil {
		return err
	}
	defer stream.Close()
	for {
		item, err := next(ctx, stream)
		switch {
		case err != nil:
			return fmt.Errorf("read %q: %w", topic, err)
		case item.Kind == client.ItemCaughtUp:
			return nil
		case item.Kind == client.ItemEpoch:
			return protocol.Errorf(protocol.ErrWrongEpoch, "the log was replaced while it was read")
		case item.Kind == client.ItemMessage && !each(item.Message, item.Epoch.ID):
			return nil
		}
	}
}

// next is the next item, but an error once ctx has ended: a stream that never runs
// dry does not look.
func next(ctx context.Context, stream client.Stream) (client.Item, error) {
	if err := ctx.Err(); err != nil {
		return client.Item{}, err
	}
	return stream.Next(ctx)
}

// window lists the documents from seq lo to hi.
func (s *Swarm) window(ctx context.Context, epoch protocol.EpochID, lo, hi protocol.Seq) (list []*Document, err error) {
	err = s.read(ctx, s.topic, func(m *protocol.Message, epoch protocol.EpochID) bool {
		if d, err := stamped(m, epoch); m.Seq <= hi && err == nil {
			list = append(list, d)
		}
		return m.Seq < hi
	}, client.FromPosition(epoch, lo-1))
	return list, err
}

// Window widths in seqs, and how many documents of one make the next wider or
// narrower.
const (
	firstWindow = 1 << 4
	fewFound    = 64
	manyFound   = 1 << 10
)

// backward yields the stamped documents up to the fence's last message, newest
// first.
func (s *Swarm) backward(ctx context.Context, f client.FenceState) iter.Seq2[*Document, error] {
	return func(yield func(*Document, error) bool) {
		width := protocol.Seq(1) // the newest is often enough
		for hi := f.S; hi > 0; {
			lo := hi - min(hi, width) + 1
			list, err := s.window(ctx, f.Epoch.ID, lo, hi)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, d := range slices.Backward(list) {
				if !yield(d, nil) {
					return
				}
			}
			hi = lo - 1
			width = nextWindow(width, len(list))
		}
	}
}

func nextWindow(width protocol.Seq, found int) protocol.Seq {
	switch {
	case width < firstWindow:
		return firstWindow
	case found < fewFound:
		return 16 * width
	case found > manyFound:
		return max(firstWindow, width/4)
	}
	return width
}

// versions yields the versions of the log, newest first. Of several messages with
// one version the first counts; one with the same content that follows a staged
// one tells that its rollout is complete.
func (s *Swarm) versions(ctx context.Context, f client.FenceState) iter.Seq2[*Document, error] {
	if !s.fenced {
		return s.firstRead(ctx)
	}
	return func(yield func(*Document, error) bool) {
		var newer *Document
		for d, err := range s.backward(ctx, f) {
			switch {
			case err != nil:
				yield(nil, err)
				return
			case newer != nil && d.Version == newer.Version:
				newer = earlier(d, newer)
				continue
			case newer != nil && !yield(newer, nil):
				return
			}
			newer = d
		}
		if newer != nil {
			yield(newer, nil)
		}
	}
}

// earlier is what a version is that was published twice.
func earlier(first, second *Document) *Document {
	if first.Staged && !second.Staged && sameContent(first, second) {
		return second
	}
	return first
}

// firstRead is versions for links without fences: in the order in which they are
// read, those above all before them count.
func (s *Swarm) firstRead(ctx context.Context) iter.Seq2[*Document, error] {
	return func(yield func(*Document, error) bool) {
		var list []*Document
		top := uint64(0)
		err := s.history(ctx, func(m *protocol.Message, epoch protocol.EpochID) bool {
			if d, err := ReadDocument(m, epoch); err == nil && d.Version > top {
				top, list = d.Version, append(list, d)
			}
			return true
		})
		if err != nil {
			yield(nil, err)
			return
		}
		for _, d := range slices.Backward(list) {
			if !yield(d, nil) {
				return
			}
		}
	}
}

// history reads the whole topic where the link retains messages.
func (s *Swarm) history(ctx context.Context, each func(*protocol.Message, protocol.EpochID) bool) error {
	if !s.conn.Capabilities().History {
		return fmt.Errorf("config %q: %w", s.name, protocol.Errorf(protocol.ErrUnsupported, "this link retains no messages"))
	}
	return s.read(ctx, s.topic, each, client.FromAll())
}

// head is what the log says now.
type head struct {
	client.FenceState
	latest *Document // nil: there is none
	staged *Document // of a rollout that is not complete; nil: there is none
}

func (h *head) version() uint64 {
	if h.latest == nil {
		return 0
	}
	return h.latest.Version
}

// top is the highest version, which may be staged.
func (h *head) top() uint64 {
	if h.staged != nil {
		return max(h.staged.Version, h.version())
	}
	return h.version()
}

func (s *Swarm) head(ctx context.Context) (h head, err error) {
	err = s.steady(ctx, func() error {
		h = head{}
		if h.FenceState, err = s.fenceIfAny(ctx); err != nil {
			return err
		}
		for d, err := range s.versions(ctx, h.FenceState) {
			switch {
			case err != nil:
				return err
			case !d.Staged:
				h.latest = d
				return nil
			case h.staged == nil:
				h.staged = d
			}
		}
		return nil
	})
	return h, err
}

// steady reads again when the log was replaced in the middle of it.
func (s *Swarm) steady(ctx context.Context, read func() error) error {
	err := read()
	for range 3 {
		if !errors.Is(err, protocol.ErrWrongEpoch) || ctx.Err() != nil {
			break
		}
		err = read()
	}
	return err
}

// find is the document of a version, nil if there is none. What is not in its
// place is looked for everywhere: an operator may have reset the fence.
func (s *Swarm) find(ctx context.Context, f client.FenceState, version uint64) (*Document, error) {
	if s.fenced && version < f.K { // the newest is found soon by going back
		d, err := s.halve(ctx, f, version)
		if d != nil || err != nil {
			return d, err
		}
	}
	for d, err := range s.versions(ctx, f) {
		if err != nil {
			return nil, err
		}
		if d.Version == version {
			return d, nil
		}
	}
	return nil, nil
}

// A look at one place of the log brings more than one message: the registry goes on
// sending until it is told to stop. So as much is looked at.
const (
	probeMessages = 256
	probeBytes    = 128 << 10
	probeMargin   = 32 // seqs before the place where the version is thought to be
)

// place is where a stamped message is.
type place struct {
	seq  protocol.Seq
	term uint64
}

// halve finds a version by the terms of messages, which rise with their seqs.
func (s *Swarm) halve(ctx context.Context, f client.FenceState, version uint64) (*Document, error) {
	lo, hi := place{}, place{f.S, f.K}
	for n := 0; lo.seq <= hi.seq; n++ { // what comes behind hi may be it
		mid := between(lo, hi, version, n%2 == 0)
		p := probe{version: version, below: place{seq: lo.seq}}
		p.complete = mid == lo.seq
		if err := s.read(ctx, s.topic, p.take, client.FromPosition(f.Epoch.ID, mid), client.Buffer(probeMessages)); err != nil {
			return nil, err
		}
		switch {
		case p.complete && (p.found != nil || !p.full):
			return p.found, nil
		case p.complete:
			lo = p.below
		default:
			hi = place{mid, max(p.first, version)}
		}
	}
	return nil, nil
}

// probe is a look at one place.
type probe struct {
	version  uint64
	complete bool   // nothing of the version lies before
	first    uint64 // the first term that was met
	below    place  // the last one below the version
	found    *Document
	full     bool // there was enough below the version
	n, bytes int
}

// take reads on up to what lies behind the version.
func (p *probe) take(m *protocol.Message, epoch protocol.EpochID) (more bool) {
	term := m.Term()
	if term == 0 {
		return true
	}
	if p.first == 0 {
		p.first = term
	}
	if term < p.version {
		p.complete, p.below = true, place{m.Seq, term}
		p.n++
		p.bytes += len(m.Payload)
		p.full = p.n >= probeMessages || p.bytes >= probeBytes
		return !p.full
	}
	if d, err := stamped(m, epoch); err == nil && term == p.version && p.complete {
		if p.found == nil {
			p.found = d
		} else {
			p.found = earlier(p.found, d)
		}
	}
	return term == p.version && p.complete
}

// between is a seq to look behind: a little before where the version would be if
// versions rose evenly, or the middle.
func between(lo, hi place, version uint64, evenly bool) protocol.Seq {
	width := hi.seq - lo.seq
	if !evenly || hi.term <= lo.term || width == 0 {
		return lo.seq + width/2
	}
	share := float64(version-lo.term) / float64(hi.term-lo.term)
	near := min(width-1, protocol.Seq(share*float64(width)))
	return lo.seq + near - min(near, probeMargin)
}
