package registry

import (
	"bytes"
	"crypto/subtle"
	"slices"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// joinToken is what is kept of a token: not its secret.
type joinToken struct {
	protocol.TokenEntry
	hash protocol.TokenHash
}

// tokenTable knows the join tokens, also those that let in nobody any more, until
// there is no room for another.
type tokenTable struct {
	tokens map[protocol.TokenID]joinToken
	made   []protocol.TokenID // rising
}

func newTokenTable() tokenTable {
	return tokenTable{tokens: make(map[protocol.TokenID]joinToken)}
}

func compareTokens(a, b protocol.TokenID) int { return bytes.Compare(a[:], b[:]) }

func (t *tokenTable) putToken(k joinToken) {
	if _, known := t.tokens[k.ID]; !known {
		at, _ := slices.BinarySearchFunc(t.made, k.ID, compareTokens)
		t.made = slices.Insert(t.made, at, k.ID)
	}
	t.tokens[k.ID] = k
}

func (t *tokenTable) dropToken(id protocol.TokenID) {
	delete(t.tokens, id)
	if at, ok := slices.BinarySearchFunc(t.made, id, compareTokens); ok {
		t.made = slices.Delete(t.made, at, at+1)
	}
}

// createToken makes a token, or finds that the same one is there.
func (b *broker) createToken(now protocol.Time, f *protocol.CreateToken) (protocol.TokenEntry, *protocol.Error) {
	if is, ok := b.tokens[f.Token]; ok {
		if is.hash != f.Hash {
			return is.TokenEntry, protocol.Errorf(protocol.ErrConflict, "token %v is there with another secret", f.Token)
		}
		return is.TokenEntry, nil
	}
	if len(b.tokens) >= b.opts.maxTokens {
		b.dropSpent(now)
	}
	if len(b.tokens) >= b.opts.maxTokens {
		return protocol.TokenEntry{}, protocol.Errorf(protocol.ErrLimit, "%d join tokens, the maximum: revoke some", len(b.tokens))
	}
	k := joinToken{hash: f.Hash, TokenEntry: protocol.TokenEntry{
		ID: f.Token, Created: now, Uses: f.Uses, Labels: relabelled(nil, f.Labels, nil), Note: f.Note,
	}}
	if f.Lifetime > 0 {
		k.Expires = now + min(protocol.Time(f.Lifetime), 1<<63-now)
	}
	b.keepToken(k)
	return k.TokenEntry, nil
}

// keepToken stages a token.
func (b *broker) keepToken(k joinToken) {
	was, known := b.tokens[k.ID]
	b.putToken(k)
	b.stage(tableTokens, string(k.ID[:]), tokenRow(&k), func() {
		if known {
			b.putToken(was)
		} else {
			b.dropToken(k.ID)
		}
	})
}

// dropSpent forgets the tokens that let in nobody any more.
func (b *broker) dropSpent(now protocol.Time) {
	for _, id := range slices.Clone(b.made) {
		k := b.tokens[id]
		if k.fault(now) == "" {
			continue
		}
		b.dropToken(id)
		b.stage(tableTokens, string(id[:]), nil, func() { b.putToken(k) })
	}
}

// revokeToken makes a token let in nobody any more.
func (b *broker) revokeToken(id protocol.TokenID) (protocol.TokenEntry, *protocol.Error) {
	k, ok := b.tokens[id]
	if !ok {
		return protocol.TokenEntry{}, protocol.Errorf(protocol.ErrNotFound, "token %v", id)
	}
	if !k.Revoked {
		k.Revoked = true
		b.keepToken(k)
	}
	return k.TokenEntry, nil
}

// fault is why the token lets in nobody; "" = it does let in.
func (k *joinToken) fault(now protocol.Time) string {
	switch {
	case k.Revoked:
		return "was revoked"
	case k.Expires != 0 && now >= k.Expires:
		return "expired at " + k.Expires.Time().Format(time.RFC3339)
	case k.Uses != 0 && k.Used >= k.Uses:
		return "is used up"
	}
	return ""
}

// tokenFor finds the token that lets in who brings this one. Who does not know
// the secret learns nothing of the token.
func (b *broker) tokenFor(now protocol.Time, brought protocol.JoinToken) (joinToken, *protocol.Error) {
	k, ok := b.tokens[brought.ID]
	hash := brought.Hash()
	if subtle.ConstantTimeCompare(k.hash[:], hash[:]) == 0 || !ok {
		return k, protocol.Errorf(protocol.ErrNotAdmitted, "the registry does not know this join token")
	}
	if why := k.fault(now); why != "" {
		return k, protocol.Errorf(protocol.ErrNotAdmitted, "the join token %s", why)
	}
	return k, nil
}

// tokenEntries lists up to limit tokens by rising id behind after.
func (t *tokenTable) tokenEntries(after []byte, limit int) []protocol.TokenEntry {
	at, found := slices.BinarySearchFunc(t.made, after, func(id protocol.TokenID, after []byte) int {
		return bytes.Compare(id[:], after)
	})
	if found {
		at++
	}
	ids := t.made[at:]
	ids = ids[:min(limit, len(ids))]
	list := make([]protocol.TokenEntry, 0, len(ids))
	for _, id := range ids {
		list = append(list, t.tokens[id].TokenEntry)
	}
	return list
}
