package protocol

import (
	"strconv"
	"time"
)

// CreateToken makes a join token; for operators. The secret stays with who makes
// it: the registry is told its hash. Sent again it changes nothing. Answered by
// TokensPage with the one token.
type CreateToken struct {
	ID       uint64
	Token    TokenID
	Hash     TokenHash
	Uses     uint64        // keys that it lets in; 0 = any number
	Lifetime time.Duration // from now on, in milliseconds; 0 = for ever
	Labels   []string      // of the keys that it lets in
	Note     string        // for operators; may be empty
	Extra    Extra
}

// Type is TypeCreateToken.
func (f *CreateToken) Type() FrameType { return TypeCreateToken }

// Append appends the frame.
func (f *CreateToken) Append(b []byte) []byte { return appendFrame(b, f) }

func (f *CreateToken) fields(c *codec) {
	number(c, &f.ID)
	c.array(f.Token[:])
	c.array(f.Hash[:])
	number(c, &f.Uses)
	c.millis(&f.Lifetime)
	c.texts(&f.Labels)
	c.text(&f.Note)
	c.extra(&f.Extra)
}

// Check reports what is wrong with the frame as a request: ErrInvalid or
// ErrTooLarge.
func (f *CreateToken) Check() error {
	if err := checkLabels(f.Labels); err != nil {
		return err
	}
	if why := nameFault(f.Note, MaxName); why != "" && f.Note != "" {
		return Errorf(ErrInvalid, "note: %s", why)
	}
	return checkID(f.ID)
}

// GetTokens lists join tokens by rising id; for operators. Answered by
// TokensPage.
type GetTokens struct {
	ID    uint64
	After []byte // a token's id; empty = from the first
	Limit uint64 // 0 = as many as fit a page
	Extra Extra
}

// Type is TypeGetTokens.
func (f *GetTokens) Type() FrameType { return TypeGetTokens }

// Append appends the frame.
func (f *GetTokens) Append(b []byte) []byte { return appendFrame(b, f) }

func (f *GetTokens) fields(c *codec) {
	number(c, &f.ID)
	c.bytes(&f.After)
	number(c, &f.Limit)
	c.extra(&f.Extra)
}

// Check reports what is wrong with the frame as a request: ErrInvalid.
func (f *GetTokens) Check() error { return checkID(f.ID) }

// TokensPage answers CreateToken, GetTokens and RevokeToken.
type TokensPage struct {
	ID     uint64
	Next   []byte // for After; empty = this is the last page
	Tokens []TokenEntry
	Extra  Extra
}

// Type is TypeTokensPage.
func (f *TokensPage) Type() FrameType { return TypeTokensPage }

// Append appends the frame.
func (f *TokensPage) Append(b []byte) []byte { return appendFrame(b, f) }

func (f *TokensPage) fields(c *codec) {
	number(c, &f.ID)
	c.bytes(&f.Next)
	list(c, &f.Tokens, 18, c.listedToken)
	c.extra(&f.Extra)
}

// TokenEntry is what a registry tells of a join token.
type TokenEntry struct {
	ID      TokenID
	Created Time
	Expires Time   // 0 = never
	Uses    uint64 // keys that it lets in; 0 = any number
	Used    uint64 // keys that it has let in
	Revoked bool
	Labels  []string
	Note    string
	Extra   Extra
}

func (c *codec) listedToken(t *TokenEntry) {
	c.record(func() {
		c.array(t.ID[:])
		number(c, &t.Created)
		number(c, &t.Expires)
		number(c, &t.Uses)
		number(c, &t.Used)
		c.flag(&t.Revoked)
		c.texts(&t.Labels)
		c.text(&t.Note)
		c.extra(&t.Extra)
	})
}

// RevokeToken makes a join token let in nobody any more; whom it has let in
// stays. For operators; answered by TokensPage with the one token, or
// ErrNotFound.
type RevokeToken struct {
	ID    uint64
	Token TokenID
	Extra Extra
}

// Type is TypeRevokeToken.
func (f *RevokeToken) Type() FrameType { return TypeRevokeToken }

// Append appends the frame.
func (f *RevokeToken) Append(b []byte) []byte { return appendFrame(b, f) }

func (f *RevokeToken) fields(c *codec) {
	number(c, &f.ID)
	c.array(f.Token[:])
	c.extra(&f.Extra)
}

// Check reports what is wrong with the frame as a request: ErrInvalid.
func (f *RevokeToken) Check() error { return checkID(f.ID) }

// Standing is what a registry has been told about a key.
type Standing uint64

// The standings.
const (
	StandingNone     Standing = 0 // admission goes by the registry's mode
	StandingAdmitted Standing = 1 // let in, by an operator or a join token
	StandingRevoked  Standing = 2 // kept out, whatever the mode
)

// String is the word for it, or its number where this version has none.
func (s Standing) String() string {
	switch s {
	case StandingNone:
		return "none"
	case StandingAdmitted:
		return "admitted"
	case StandingRevoked:
		return "revoked"
	}
	return strconv.FormatUint(uint64(s), 10)
}

// SetKey changes what the registry knows of a key, which need not have been
// there: its standing and its labels. The sessions of a key that is revoked end.
// For operators; answered by KeysPage with the one key.
type SetKey struct {
	ID       uint64
	Key      KeyHash
	Keep     bool // the standing stays as it is
	Standing Standing
	Add      []string // labels
	Drop     []string // labels
	Extra    Extra
}

// Type is TypeSetKey.
func (f *SetKey) Type() FrameType { return TypeSetKey }

// Append appends the frame.
func (f *SetKey) Append(b []byte) []byte { return appendFrame(b, f) }

func (f *SetKey) fields(c *codec) {
	number(c, &f.ID)
	c.array(f.Key[:])
	c.flag(&f.Keep)
	number(c, &f.Standing)
	c.texts(&f.Add)
	c.texts(&f.Drop)
	c.extra(&f.Extra)
}

// Check reports what is wrong with the frame as a request: ErrInvalid or
// ErrTooLarge.
func (f *SetKey) Check() error {
	if f.Standing > StandingRevoked {
		return Errorf(ErrInvalid, "no standing %d", f.Standing)
	}
	for _, labels := range [][]string{f.Add, f.Drop} {
		if err := checkLabels(labels); err != nil {
			return err
		}
	}
	return checkID(f.ID)
}

// GetKeys lists the keys with a standing or labels, by rising hash; for
// operators. Answered by KeysPage.
type GetKeys struct {
	ID    uint64
	After []byte // a key's hash; empty = from the first
	Limit uint64 // 0 = as many as fit a page
	Extra Extra
}

// Type is TypeGetKeys.
func (f *GetKeys) Type() FrameType { return TypeGetKeys }

// Append appends the frame.
func (f *GetKeys) Append(b []byte) []byte { return appendFrame(b, f) }

func (f *GetKeys) fields(c *codec) {
	number(c, &f.ID)
	c.bytes(&f.After)
	number(c, &f.Limit)
	c.extra(&f.Extra)
}

// Check reports what is wrong with the frame as a request: ErrInvalid.
func (f *GetKeys) Check() error { return checkID(f.ID) }

// KeysPage answers SetKey and GetKeys.
type KeysPage struct {
	ID    uint64
	Next  []byte // for After; empty = this is the last page
	Keys  []KeyEntry
	Extra Extra
}

// Type is TypeKeysPage.
func (f *KeysPage) Type() FrameType { return TypeKeysPage }

// Append appends the frame.
func (f *KeysPage) Append(b []byte) []byte { return appendFrame(b, f) }

func (f *KeysPage) fields(c *codec) {
	number(c, &f.ID)
	c.bytes(&f.Next)
	list(c, &f.Keys, 40, c.listedKey)
	c.extra(&f.Extra)
}

// KeyEntry is what a registry has been told about a key.
type KeyEntry struct {
	Key      KeyHash
	Standing Standing
	Since    Time     // of the standing
	Labels   []string // in byte order
	Token    []byte   // the id of the join token that let it in; empty = none did
	Extra    Extra
}

func (c *codec) listedKey(k *KeyEntry) {
	c.record(func() {
		c.array(k.Key[:])
		number(c, &k.Standing)
		number(c, &k.Since)
		c.texts(&k.Labels)
		c.bytes(&k.Token)
		c.extra(&k.Extra)
	})
}

// ForgetNode frees a node's place in the node table: its name, its inbox and
// that it was there before; a revocation stays. For operators; answered by Done,
// ErrNotFound, or ErrConflict while it has a session.
type ForgetNode struct {
	ID    uint64
	Node  NodeID
	Extra Extra
}

// Type is TypeForgetNode.
func (f *ForgetNode) Type() FrameType { return TypeForgetNode }

// Append appends the frame.
func (f *ForgetNode) Append(b []byte) []byte { return appendFrame(b, f) }

func (f *ForgetNode) fields(c *codec) {
	number(c, &f.ID)
	c.node(&f.Node)
	c.extra(&f.Extra)
}

// Check reports what is wrong with the frame as a request: ErrInvalid.
func (f *ForgetNode) Check() error { return checkID(f.ID) }

// PurgeTopic drops a topic's messages, as retention would; for operators.
// Answered by Done.
type PurgeTopic struct {
	ID    uint64
	Topic string
	UpTo  Seq // 0 = all that there are
	Extra Extra
}

// Type is TypePurgeTopic.
func (f *PurgeTopic) Type() FrameType { return TypePurgeTopic }

// Append appends the frame.
func (f *PurgeTopic) Append(b []byte) []byte { return appendFrame(b, f) }

func (f *PurgeTopic) fields(c *codec) {
	number(c, &f.ID)
	c.text(&f.Topic)
	number(c, &f.UpTo)
	c.extra(&f.Extra)
}

// Check reports what is wrong with the frame as a request: ErrInvalidTopic or
// ErrInvalid.
func (f *PurgeTopic) Check() error {
	if err := ValidTopic(f.Topic); err != nil {
		return err
	}
	return checkID(f.ID)
}

// DeleteTopic drops all messages of a topic and takes it out of every inbox. Its
// fence stays. For operators; answered by Done.
type DeleteTopic struct {
	ID    uint64
	Topic string
	Extra Extra
}

// Type is TypeDeleteTopic.
func (f *DeleteTopic) Type() FrameType { return TypeDeleteTopic }

// Append appends the frame.
func (f *DeleteTopic) Append(b []byte) []byte { return appendFrame(b, f) }

func (f *DeleteTopic) fields(c *codec) {
	number(c, &f.ID)
	c.text(&f.Topic)
	c.extra(&f.Extra)
}

// Check reports what is wrong with the frame as a request: ErrInvalidTopic or
// ErrInvalid.
func (f *DeleteTopic) Check() error {
	if err := ValidTopic(f.Topic); err != nil {
		return err
	}
	return checkID(f.ID)
}
