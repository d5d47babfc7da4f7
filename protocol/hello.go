package protocol

// Features is a set of optional abilities; both sides use only what both named.
// Version 1 has none.
type Features uint64

// Limits are a registry's maximums for one session.
type Limits struct {
	Payload       uint64 // bytes of one payload
	InFlight      uint64 // publishes of one lane without an answer
	Subscriptions uint64 // open at once
	Page          uint64 // bytes of one page of a list, about
}

// Hello opens a session: the first frame on its first channel, sent by the client.
type Hello struct {
	MinVersion, MaxVersion uint64
	Features               Features
	Instance               Instance
	Name                   string   // a host name to show; may be empty
	Tags                   []string // labels the client gives itself
	Token                  []byte   // join token, empty where none is needed
	Extra                  Extra
}

// Type is TypeHello.
func (f *Hello) Type() FrameType { return TypeHello }

// Append appends the frame.
func (f *Hello) Append(b []byte) []byte { return appendFrame(b, f) }

func (f *Hello) fields(c *codec) {
	number(c, &f.MinVersion)
	number(c, &f.MaxVersion)
	number(c, &f.Features)
	c.array(f.Instance[:])
	c.text(&f.Name)
	c.texts(&f.Tags)
	c.bytes(&f.Token)
	c.extra(&f.Extra)
}

// Check reports what is wrong with the frame as a request: ErrInvalid or
// ErrTooLarge.
func (f *Hello) Check() error {
	switch {
	case f.MinVersion == 0 || f.MinVersion > f.MaxVersion:
		return Errorf(ErrInvalid, "versions %d to %d", f.MinVersion, f.MaxVersion)
	case len(f.Tags) > MaxTags:
		return tooLarge("tags", len(f.Tags), MaxTags)
	case len(f.Token) > MaxToken:
		return tooLarge("bytes of token", len(f.Token), MaxToken)
	}
	if why := nameFault(f.Name, MaxName); why != "" && f.Name != "" {
		return Errorf(ErrInvalid, "name: %s", why)
	}
	for _, tag := range f.Tags {
		if why := nameFault(tag, MaxName); why != "" {
			return Errorf(ErrInvalid, "tag %q: %s", tag, why)
		}
	}
	return nil
}

// Choose picks the newest version that both sides speak. The error is
// ErrVersion.
func (f *Hello) Choose() (uint64, error) {
	v := min(f.MaxVersion, Version)
	if v < f.MinVersion || v < MinVersion {
		return 0, Errorf(ErrVersion, "the client speaks %d to %d, the registry %d to %d",
			f.MinVersion, f.MaxVersion, MinVersion, Version)
	}
	return v, nil
}

// Welcome answers Hello.
type Welcome struct {
	Version  uint64
	Features Features
	Epoch    Epoch
	Node     NodeID // the client's id, as the registry derived it from the proved key
	Head     Seq    // highest seq in the log
	Now      Time   // registry time
	Limits   Limits
	Software string // name and version of the registry, to show
	Extra    Extra
}

// Type is TypeWelcome.
func (f *Welcome) Type() FrameType { return TypeWelcome }

// Append appends the frame.
func (f *Welcome) Append(b []byte) []byte { return appendFrame(b, f) }

func (f *Welcome) fields(c *codec) {
	number(c, &f.Version)
	number(c, &f.Features)
	c.record(func() {
		number(c, &f.Epoch.ID)
		number(c, &f.Epoch.Born)
	})
	c.node(&f.Node)
	number(c, &f.Head)
	number(c, &f.Now)
	c.record(func() {
		number(c, &f.Limits.Payload)
		number(c, &f.Limits.InFlight)
		number(c, &f.Limits.Subscriptions)
		number(c, &f.Limits.Page)
	})
	c.text(&f.Software)
	c.extra(&f.Extra)
}

// Check reports what a client cannot accept of the answer to its hello:
// ErrVersion for a version it did not offer, ErrInvalid for limits nobody could
// work with.
func (f *Welcome) Check(hello *Hello) error {
	switch l := f.Limits; {
	case f.Version < hello.MinVersion || f.Version > hello.MaxVersion:
		return Errorf(ErrVersion, "the registry chose %d, offered were %d to %d",
			f.Version, hello.MinVersion, hello.MaxVersion)
	case l.Payload == 0 || l.Payload > MaxPayload || l.InFlight == 0 || l.Page > MaxPage:
		return Errorf(ErrInvalid, "the registry's limits: payload %d, in flight %d, page %d",
			l.Payload, l.InFlight, l.Page)
	case f.Epoch.ID == 0:
		return Errorf(ErrInvalid, "the registry names no epoch")
	}
	return nil
}
