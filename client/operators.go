package client

import (
	"context"
	"crypto/rand"
	"fmt"
	"iter"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// What operators ask of a registry. A node that is none gets ErrDenied. Like all
// requests these go again when a connection is lost before the answer; what was
// done is not done twice.

// TokenOptions say whom a join token lets in.
type TokenOptions struct {
	Uses     int           // keys that it lets in; 0 = any number
	Lifetime time.Duration // 0 = for ever
	Labels   []string      // that the keys get which it lets in
	Note     string        // for operators; may be empty
}

// CreateToken makes a join token for this registry. Its text is the secret: the
// registry is not told it, and nobody can ask for it again.
func (c *Client) CreateToken(ctx context.Context, o TokenOptions) (text string, entry protocol.TokenEntry, err error) {
	token := protocol.JoinToken{}
	rand.Read(token.ID[:])
	rand.Read(token.Secret[:])
	entry, err = c.token(ctx, func(id uint64) protocol.Frame {
		return &protocol.CreateToken{
			ID: id, Token: token.ID, Hash: token.Hash(), Uses: uint64(max(0, o.Uses)), Lifetime: o.Lifetime, Labels: o.Labels, Note: o.Note,
		}
	})
	if err != nil {
		return "", entry, fmt.Errorf("create token: %w", err)
	}
	token.Registry = *c.met.Load() // it has answered
	return token.String(), entry, nil
}

// RevokeToken makes a join token let in nobody any more. Whom it has let in stays.
func (c *Client) RevokeToken(ctx context.Context, token protocol.TokenID) (protocol.TokenEntry, error) {
	entry, err := c.token(ctx, func(id uint64) protocol.Frame { return &protocol.RevokeToken{ID: id, Token: token} })
	if err != nil {
		return entry, fmt.Errorf("revoke token: %w", err)
	}
	return entry, nil
}

func (c *Client) token(ctx context.Context, frame func(id uint64) protocol.Frame) (protocol.TokenEntry, error) {
	f, err := request[*protocol.TokensPage](ctx, c, protocol.TypeTokensPage, frame)
	if err != nil {
		return protocol.TokenEntry{}, err
	}
	if len(f.Tokens) != 1 {
		return protocol.TokenEntry{}, protocol.Errorf(protocol.ErrMalformed, "%d tokens for one", len(f.Tokens))
	}
	return f.Tokens[0], nil
}

// Tokens lists the join tokens by rising id, also those that let in nobody any
// more. An error ends the list.
func (c *Client) Tokens(ctx context.Context) iter.Seq2[protocol.TokenEntry, error] {
	return paged(func(after string) ([]protocol.TokenEntry, string, error) {
		f, err := request[*protocol.TokensPage](ctx, c, protocol.TypeTokensPage, func(id uint64) protocol.Frame {
			return &protocol.GetTokens{ID: id, After: []byte(after)}
		})
		if err != nil {
			return nil, "", fmt.Errorf("tokens: %w", err)
		}
		return f.Tokens, string(f.Next), nil
	})
}

// KeyChange is what an operator says about a key.
type KeyChange struct {
	Standing *protocol.Standing // nil leaves it
	Add      []string           // labels
	Drop     []string           // labels
}

// SetKey changes what the registry knows of a key, whether it has been there or
// not. The sessions of a key that is revoked end.
func (c *Client) SetKey(ctx context.Context, key protocol.KeyHash, change KeyChange) (protocol.KeyEntry, error) {
	f, err := request[*protocol.KeysPage](ctx, c, protocol.TypeKeysPage, func(id uint64) protocol.Frame {
		f := &protocol.SetKey{ID: id, Key: key, Keep: change.Standing == nil, Add: change.Add, Drop: change.Drop}
		if change.Standing != nil {
			f.Standing = *change.Standing
		}
		return f
	})
	if err == nil && len(f.Keys) != 1 {
		err = protocol.Errorf(protocol.ErrMalformed, "%d keys for one", len(f.Keys))
	}
	if err != nil {
		return protocol.KeyEntry{}, fmt.Errorf("set key: %w", err)
	}
	return f.Keys[0], nil
}

// Keys lists the keys that have a standing or labels, by rising hash. An error
// ends the list.
func (c *Client) Keys(ctx context.Context) iter.Seq2[protocol.KeyEntry, error] {
	return paged(func(after string) ([]protocol.KeyEntry, string, error) {
		f, err := request[*protocol.KeysPage](ctx, c, protocol.TypeKeysPage, func(id uint64) protocol.Frame {
			return &protocol.GetKeys{ID: id, After: []byte(after)}
		})
		if err != nil {
			return nil, "", fmt.Errorf("keys: %w", err)
		}
		return f.Keys, string(f.Next), nil
	})
}

// ForgetNode frees a node's place in the table of nodes, with its inbox; a
// revocation stays. It is ErrConflict while the node has a session, and
// ErrNotFound when it is not there, or no more.
func (c *Client) ForgetNode(ctx context.Context, node protocol.NodeID) error {
	return c.order(ctx, fmt.Sprintf("forget node %d", node), func(id uint64) protocol.Frame {
		return &protocol.ForgetNode{ID: id, Node: node}
	})
}

// PurgeTopic drops the messages of a topic up to a seq, as retention would; 0 is
// all there are.
func (c *Client) PurgeTopic(ctx context.Context, topic string, upTo protocol.Seq) error {
	return c.order(ctx, fmt.Sprintf("purge %q", topic), func(id uint64) protocol.Frame {
		return &protocol.PurgeTopic{ID: id, Topic: topic, UpTo: upTo}
	})
}

// DeleteTopic drops all messages of a topic and takes it out of every inbox. Its
// fence stays.
func (c *Client) DeleteTopic(ctx context.Context, topic string) error {
	return c.order(ctx, fmt.Sprintf("delete %q", topic), func(id uint64) protocol.Frame {
		return &protocol.DeleteTopic{ID: id, Topic: topic}
	})
}

func (c *Client) order(ctx context.Context, what string, frame func(id uint64) protocol.Frame) error {
	if _, err := request[*protocol.Done](ctx, c, protocol.TypeDone, frame); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
