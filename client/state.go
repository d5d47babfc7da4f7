package client

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/pilotgo/pilotgo/internal/link"
)

// StateDir is the folder of pilotgo's own files under a Home as in [Options].
// It need not exist.
func StateDir(home string) (string, error) {
	home, err := homeDir(home)
	if err != nil {
		return "", err
	}
	return filepath.Join(home, ".pilot", "pilotgo"), nil
}

func homeDir(home string) (string, error) {
	if home != "" {
		return home, nil
	}
	if home = os.Getenv("PILOT_HOME"); home != "" {
		return home, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("home folder: %w", err)
	}
	return home, nil
}

func pins(home string) (link.Pins, error) {
	dir, err := StateDir(home)
	if err != nil {
		return nil, err
	}
	return link.FilePins(filepath.Join(dir, "registries.json")), nil
}

// KnownRegistry is a registry whose key is remembered.
type KnownRegistry struct {
	Host        string // as host:port
	Fingerprint string
}

// KnownRegistries lists the registries remembered under a Home as in [Options].
func KnownRegistries(home string) ([]KnownRegistry, error) {
	p, err := pins(home)
	if err != nil {
		return nil, err
	}
	list, err := p.List()
	if err != nil {
		return nil, err
	}
	known := make([]KnownRegistry, 0, len(list))
	for _, pin := range list {
		known = append(known, KnownRegistry{pin.Host, pin.Fingerprint})
	}
	return known, nil
}

// ForgetRegistry forgets the keys of the registry at addr, which is written as
// for Dial, and reports whether there was one.
func ForgetRegistry(home, addr string) (bool, error) {
	addrs, err := parseAddresses(addr)
	if err != nil {
		return false, err
	}
	p, err := pins(home)
	if err != nil {
		return false, err
	}
	any := false
	for _, addr := range addrs {
		ok, err := p.Forget(addr)
		if err != nil {
			return any, err
		}
		any = any || ok
	}
	return any, nil
}

// link is what options mean for the connection.
func (o Options) link() (link.Config, error) {
	conf := link.Config{
		Pinned:  o.RegistryKey,
		Pins:    link.MemoryPins(),
		Tickets: link.MemoryTickets(),
		Limits:  o.limits(),
		Logger:  o.Logger,
	}
	if o.PacketConn != nil {
		conf.PacketConn = link.NewSocket(o.PacketConn)
	}
	var err error
	if conf.Identity, err = o.identity(); err != nil {
		return conf, err
	}
	if o.NoState {
		return conf, nil
	}
	dir, err := StateDir(o.Home)
	if err != nil {
		return conf, err
	}
	if conf.Pins, err = pins(o.Home); err != nil {
		return conf, err
	}
	if o.OneShot {
		conf.Tickets = link.FileTickets(filepath.Join(dir, "tickets"))
	}
	return conf, nil
}

// A registry may send so many bytes on a channel ahead of its reader. All channels
// may be full and the rest of the connection goes on, since there is room for more
// channels than a client opens. Room is a promise and no memory.
const (
	channelWindow    = 256 << 10
	maxSubscriptions = 4000
	otherChannels    = 64 // control, lanes, and those that are ending
)

func (o Options) limits() link.Limits {
	return link.Limits{
		Channels:  -1, // the client opens them
		Window:    channelWindow,
		Total:     (maxSubscriptions + otherChannels) * channelWindow,
		KeepAlive: o.KeepAlive,
		Idle:      o.Idle,
	}
}

func (o Options) identity() (link.Identity, error) {
	if o.Key != nil {
		return link.Identity{Key: o.Key}, nil
	}
	home, err := homeDir(o.Home)
	if err != nil {
		return link.Identity{}, err
	}
	return link.LoadOrMakeIdentity(home)
}
