package fakeregistry

import (
	"slices"
	"strings"
	"sync"
)

// mentions are the nodes that faults have named, with what named each first.
type mentions struct {
	mu    sync.Mutex
	first map[string]string
	order []string
}

func (m *mentions) add(what string, nodes ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, node := range nodes {
		if node == "" || node == Host || m.first[node] != "" {
			continue
		}
		if m.first == nil {
			m.first = make(map[string]string)
		}
		m.first[node] = what
		m.order = append(m.order, node)
	}
}

// fault notes a fault, and the nodes that it names.
func (r *Registry) fault(what, text string, nodes ...string) {
	r.events.fault(what, text)
	r.mentions.add(what, nodes...)
}

// Strangers lists the nodes that faults have named and that there never was:
// Endpoint was not asked for them, no client told that name or had that id, and
// Inject did not speak for them. A name that is misspelt is a fault that never
// happens, so with New and Listen each is an error of the test when that ends. A
// fault may name a node that is still to come.
func (r *Registry) Strangers() []string {
	known := r.people.everybody()
	r.mentions.mu.Lock()
	defer r.mentions.mu.Unlock()
	var list []string
	for _, node := range r.mentions.order {
		if !known[node] {
			list = append(list, node)
		}
	}
	return list
}

// reportStrangers tells the test.
func (r *Registry) reportStrangers() {
	r.t.Helper()
	strangers := r.Strangers()
	if len(strangers) == 0 {
		return
	}
	there := "none"
	if list := r.people.known(); len(list) > 0 {
		there = strings.Join(list, ", ")
	}
	r.mentions.mu.Lock()
	defer r.mentions.mu.Unlock()
	for _, node := range strangers {
		r.t.Errorf("fakeregistry: a fault (%s) names node %q, which there never was; there were %s", r.mentions.first[node], node, there)
	}
}

// everybody are all names that nodes were called by, and their ids.
func (p *people) everybody() map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make(map[string]bool)
	for id, name := range p.called {
		all[name], all[id.String()] = true, true
	}
	for _, list := range p.names {
		for _, name := range list {
			all[name] = true
		}
	}
	return all
}

// known are the nodes, each by the name that inspection has for it.
func (p *people) known() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []string
	for _, name := range p.called {
		list = append(list, name)
	}
	for _, names := range p.names {
		list = append(list, names.first())
	}
	list = slices.DeleteFunc(list, func(name string) bool { return strings.HasPrefix(name, "\x00") })
	slices.Sort(list)
	return slices.Compact(list)
}
