package config

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/protocol"
)

// WatchKind is what a watcher sees.
type WatchKind uint8

// The kinds of event.
const (
	WatchSnapshot WatchKind = iota + 1 // Document: the latest version, nil if there is none
	WatchUpdate                        // Document: the next version, or a staged one
	WatchGap                           // From, To: versions in this range may have been missed; a snapshot follows
	WatchEpoch                         // Epoch: the log was lost or replaced; a snapshot follows
)

var watchNames = [...]string{
	WatchSnapshot: "snapshot", WatchUpdate: "update", WatchGap: "gap", WatchEpoch: "new epoch",
}

func (k WatchKind) String() string {
	if int(k) < len(watchNames) {
		return watchNames[k]
	}
	return "unknown"
}

// WatchEvent is one thing that a watcher sees.
type WatchEvent struct {
	Kind     WatchKind
	Document *Document
	From, To protocol.Seq
	Epoch    protocol.Epoch // of the log, on every kind
}

// Watch yields what happens to the configuration: first a snapshot of the latest
// version, then each version as it is published, over lost connections too. What
// retention took before it was read shows as a gap, behind which a snapshot of the
// latest version stands for all that was missed. Within an epoch versions rise; a
// version that was staged comes again when its rollout is complete.
//
// A snapshot without a document says that the log has no version. That is no
// reason to forget one: the registry may have lost its log.
//
// Watch changes nothing and reports nothing; see [Swarm.Follow]. An error ends it
// and is yielded last; there is none when the connection was closed.
func (s *Swarm) Watch(ctx context.Context) iter.Seq2[WatchEvent, error] {
	return func(yield func(WatchEvent, error) bool) {
		w := watcher{s: s, yield: yield, unread: s.fenced || s.conn.Capabilities().History}
		err := w.run(ctx)
		if err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, errStop) {
			yield(WatchEvent{}, fmt.Errorf("watch config %q: %w", s.name, err))
		}
	}
}

// errStop: the reader wants no more.
var errStop = errors.New("stop")

type watcher struct {
	s     *Swarm
	yield func(WatchEvent, error) bool
	epoch protocol.Epoch
	shelf
	unread bool // a snapshot is due
}

func (w *watcher) run(ctx context.Context) error {
	start := client.FromNew()
	if !w.s.fenced {
		start = client.FromAll()
	}
	stream, err := w.s.conn.Subscribe(ctx, w.s.topic, start)
	if err != nil {
		return err
	}
	defer stream.Close()
	for {
		item, err := next(ctx, stream)
		if err == nil {
			err = w.take(ctx, item)
		}
		if err != nil {
			return err
		}
	}
}

func (w *watcher) take(ctx context.Context, item client.Item) error {
	switch item.Kind {
	case client.ItemMessage:
		return w.message(item)
	case client.ItemCaughtUp:
		w.epoch = item.Epoch
		return w.snapshot(ctx)
	case client.ItemGap:
		w.unread = true
		return w.tell(WatchEvent{Kind: WatchGap, From: item.From, To: item.To})
	case client.ItemEpoch:
		known := w.epoch.ID != 0
		w.epoch, w.shelf, w.unread = item.Epoch, shelf{}, true
		if known {
			return w.tell(WatchEvent{Kind: WatchEpoch})
		}
	case client.ItemDisconnected:
	}
	return nil
}

func (w *watcher) tell(e WatchEvent) error {
	e.Epoch = w.epoch
	if !w.yield(e, nil) {
		return errStop
	}
	return nil
}

// message tells of a version; while a snapshot is due that will tell of it.
func (w *watcher) message(item client.Item) error {
	read := stamped
	if !w.s.fenced {
		read = ReadDocument
	}
	d, err := read(item.Message, item.Epoch.ID)
	if err != nil || w.unread && w.s.fenced {
		return nil
	}
	if news, _ := w.place(refOf(d), true); !news || w.unread {
		return nil
	}
	return w.tell(WatchEvent{Kind: WatchUpdate, Document: d})
}

func (w *watcher) snapshot(ctx context.Context) error {
	if !w.unread {
		return nil
	}
	h, err := w.s.head(ctx)
	if err != nil {
		return err
	}
	w.unread = h.Epoch.ID != w.epoch.ID && w.s.fenced // the stream will say so, and catch up again
	if w.unread {
		return nil
	}
	if h.latest != nil {
		w.place(refOf(h.latest), true)
	}
	if err := w.tell(WatchEvent{Kind: WatchSnapshot, Document: h.latest}); err != nil || h.staged == nil {
		return err
	}
	w.place(refOf(h.staged), true)
	return w.tell(WatchEvent{Kind: WatchUpdate, Document: h.staged})
}
