package config

// SetFault makes each step of an apply call fault first.
func (f *File) SetFault(fault func(step string) error) { f.fault = fault }
