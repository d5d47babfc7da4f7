package fakeregistry

import "sync"

// held are nodes that something is held back from.
type held struct {
	mu    sync.Mutex
	nodes map[string]chan struct{} // "" is all
}

func (h *held) hold(node string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.nodes[node] == nil {
		if h.nodes == nil {
			h.nodes = make(map[string]chan struct{})
		}
		h.nodes[node] = make(chan struct{})
	}
}

func (h *held) release(node string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.nodes[node]; c != nil {
		close(c)
		delete(h.nodes, node)
	}
}

func (h *held) releaseAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.nodes {
		close(c)
	}
	clear(h.nodes)
}

// find is a channel that is closed when one of the names is released, or nil.
func (h *held) find(who names) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.nodes) == 0 {
		return nil
	}
	for node, c := range h.nodes {
		if who.has(node) {
			return c
		}
	}
	return nil
}
