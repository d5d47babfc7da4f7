package admin

import (
	"bytes"
	"fmt"
	"net/http"
	"sync"
	"time"
)

const (
	maxStreams = 100
	keepAlive  = 15 * time.Second
)

// hub renders the sections now and then, as long as somebody looks, and sends
// those that have changed.
type hub struct {
	page     *page
	snapshot func() *Snapshot
	every    time.Duration

	mu      sync.Mutex
	streams map[*stream]struct{}
	closed  bool
	stop    chan struct{} // of run; nil while it does not run
	wg      sync.WaitGroup
}

// stream is one browser that looks on.
type stream struct {
	seen map[string][]byte // sections as it has them
	wake chan map[string][]byte
	done chan struct{} // closed when the hub ends it
}

func newHub(p *page, snapshot func() *Snapshot, every time.Duration) *hub {
	return &hub{page: p, snapshot: snapshot, every: every, streams: map[*stream]struct{}{}}
}

func (h *hub) close() {
	h.mu.Lock()
	h.closed = true
	for s := range h.streams {
		close(s.done)
		delete(h.streams, s)
	}
	h.rest()
	h.mu.Unlock()
	h.wg.Wait()
}

// add begins a stream, and the rendering with the first.
func (h *hub) add() (*stream, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || len(h.streams) >= maxStreams {
		return nil, false
	}
	s := &stream{seen: map[string][]byte{}, wake: make(chan map[string][]byte, 1), done: make(chan struct{})}
	h.streams[s] = struct{}{}
	if h.stop == nil {
		h.stop = make(chan struct{})
		h.wg.Go(func() { h.run(h.stop) })
	}
	return s, true
}

func (h *hub) remove(s *stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.streams, s)
	h.rest()
}

// rest ends the rendering when nobody looks. h.mu is held.
func (h *hub) rest() {
	if len(h.streams) == 0 && h.stop != nil {
		close(h.stop)
		h.stop = nil
	}
}

func (h *hub) run(stop chan struct{}) {
	tick := time.NewTicker(h.every)
	defer tick.Stop()
	for {
		h.send(h.render())
		select {
		case <-tick.C:
		case <-stop:
			return
		}
	}
}

func (h *hub) render() map[string][]byte {
	s := h.snapshot()
	all := make(map[string][]byte, len(sections))
	for _, name := range sections {
		b, err := h.page.part(name, s)
		if err != nil {
			b = fmt.Appendf(nil, "<p>%T</p>", err) // a fault in the template: the tests would have shown it
		}
		all[name] = b
	}
	return all
}

// send hands what was rendered to all streams. One that has not taken the last
// yet takes this one instead.
func (h *hub) send(all map[string][]byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.streams {
		select {
		case <-s.wake:
		default:
		}
		s.wake <- all
	}
}

// ServeHTTP sends the sections as server-sent events, each when it has changed.
func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s, ok := h.add()
	if !ok {
		w.Header().Set("Retry-After", "10")
		http.Error(w, "too many look on already", http.StatusServiceUnavailable)
		return
	}
	defer h.remove(s)
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	alive := time.NewTicker(keepAlive)
	defer alive.Stop()
	for {
		var b []byte
		select {
		case all := <-s.wake:
			b = s.news(all)
		case <-alive.C:
			b = []byte(": still here\n\n")
		case <-s.done:
			return
		case <-r.Context().Done():
			return
		}
		_ = out.SetWriteDeadline(time.Now().Add(answerPatience))
		if _, err := w.Write(b); err != nil || out.Flush() != nil {
			return
		}
	}
}

// news are the events for the sections that the stream does not have so.
func (s *stream) news(all map[string][]byte) (b []byte) {
	for _, name := range sections {
		if bytes.Equal(s.seen[name], all[name]) {
			continue
		}
		s.seen[name] = all[name]
		b = fmt.Appendf(b, "event: %s\n", name)
		for line := range bytes.Lines(all[name]) {
			b = append(append(b, "data: "...), bytes.TrimRight(line, "\r\n")...)
			b = append(b, '\n')
		}
		b = append(b, '\n')
	}
	return b
}
