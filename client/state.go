package client

import "errors"

// StateDir is the folder of pilotgo's own files under a Home as in [Options].
func StateDir(home string) (string, error) { return "", errors.ErrUnsupported }

// KnownRegistry is a registry whose key is remembered.
type KnownRegistry struct{ Host, Fingerprint string }

// KnownRegistries lists the registries remembered under a Home as in [Options].
func KnownRegistries(home string) ([]KnownRegistry, error) { return nil, errors.ErrUnsupported }

// ForgetRegistry forgets the key of a registry and reports whether there was one.
func ForgetRegistry(home, addr string) (bool, error) { return false, errors.ErrUnsupported }
