package config

import "encoding/json"

// SetFault makes each step of an apply call fault first.
func (f *File) SetFault(fault func(step string) error) { f.fault = fault }

// ReparseState reads the text of a state file and writes it anew.
func ReparseState(text []byte, swarm string) ([]byte, error) {
	s, err := parseState(text, swarm)
	if err != nil {
		return nil, err
	}
	return json.Marshal(s)
}
