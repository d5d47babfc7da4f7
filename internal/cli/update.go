package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/protocol"
)

// update is a new version of a swarm's configuration. It goes under the fence of
// its topic: else scripts, which take the last of two equal versions, and Go
// agents, which take the first, would part for ever.
type update struct {
	topic   string
	version uint64
	config  []byte // as it is spelled
}

// readUpdate finds the version in a config_update; any other message is nil.
func readUpdate(topic string, data []byte) (*update, error) {
	if protocol.Swarm(topic) == "" {
		return nil, nil
	}
	var m map[string]json.RawMessage // not a struct, whose keys match in any case
	if json.Unmarshal(data, &m) != nil || unquoteIfText(m["type"]) != "config_update" {
		return nil, nil
	}
	if compactObject(data) == nil {
		return nil, &failure{
			code:    protocol.ErrInvalid.Name(),
			message: "config_update: the message is not UTF-8, or nests too deep for scripts to read",
			exit:    exitInvalid,
		}
	}
	version, err := strconv.ParseUint(string(m["version"]), 10, 64)
	if err != nil || version < 1 || version > protocol.MaxTerm {
		return nil, &failure{
			code:    protocol.ErrInvalid.Name(),
			message: fmt.Sprintf("config_update: version %s is no integer from 1 to %d", cutText(cmp.Or(string(m["version"]), "(none)")), uint64(protocol.MaxTerm)),
			hint:    "use $(date +%s), as an unquoted number",
			exit:    exitInvalid,
		}
	}
	return &update{topic, version, m["config"]}, nil
}

// publishUpdate publishes under the fence. Who loses joins the topic all the same,
// and can read the winner's; if that is the same config, nothing is lost.
func (a *app) publishUpdate(ctx context.Context, c *client.Client, h host, p client.Publication, u *update) error {
	fence, err := u.condition(ctx, c)
	if err != nil {
		return err
	}
	p.Conditions = append(p.Conditions, fence)
	ack, err := send(ctx, c, &p)
	if u.refused(err) {
		p.Join = c.Join(ctx, u.topic) == nil
		if first := u.published(ctx, c, err); first != nil {
			return a.published(ctx, c, h, p, client.Ack{Seq: first.Seq, Time: first.Time.Time(), Epoch: fence.Epoch, Duplicate: true})
		}
		if p.Join {
			a.used(ctx, c, h, fence.Epoch, u.topic)
		}
		return u.conflict(err)
	}
	if err != nil {
		return err
	}
	return a.published(ctx, c, h, p, ack)
}

// refused tells whether the version was, and not the term of a leader.
func (u *update) refused(err error) bool {
	var e *protocol.Error
	return (errors.Is(err, protocol.ErrStaleTerm) || errors.Is(err, protocol.ErrConflict)) && errors.As(err, &e) && e.Topic == u.topic
}

// published is the message of this version with the same config, nil if there is
// none to be read.
func (u *update) published(ctx context.Context, c *client.Client, refused error) *protocol.Message {
	from := client.FromAll()
	var e *protocol.Error
	if errors.As(refused, &e) && e.Fence.K == u.version && e.Fence.S > 0 {
		from = client.FromSeq(e.Fence.S - 1)
	}
	sub, err := c.Subscribe(ctx, u.topic, from)
	if err != nil {
		return nil
	}
	defer sub.Close()
	for {
		item, err := sub.Next(ctx)
		switch {
		case err != nil, item.Kind == client.ItemCaughtUp, item.Kind == client.ItemEpoch:
			return nil
		case item.Kind == client.ItemMessage && item.Message.Term() == u.version:
			if found, err := readUpdate(u.topic, item.Message.Payload); err == nil && found != nil && bytes.Equal(found.config, u.config) {
				return item.Message
			}
			return nil
		}
	}
}

// leap is how far ahead of registry time a version may be that is a time.
const leap = 24 * time.Hour

// condition asks for the fence and refuses a version that would leave no room for
// later ones.
func (u *update) condition(ctx context.Context, c *client.Client) (fence protocol.Condition, err error) {
	f, err := c.Fence(ctx, u.topic)
	if err != nil {
		return fence, err
	}
	if u.version > f.K+1 {
		info, err := c.Info(ctx)
		if err != nil {
			return fence, err
		}
		if u.version > uint64(max(0, info.Now.Add(leap).Unix())) {
			return fence, u.tooHigh(f.K)
		}
	}
	return protocol.Condition{Topic: u.topic, Epoch: f.Epoch.ID, Term: u.version, Raise: u.version}, nil
}

func (u *update) tooHigh(last uint64) error {
	return &failure{
		code:    protocol.ErrInvalid.Name(),
		message: fmt.Sprintf("config_update: version %d skips ahead: the last one is %d, and as a time it is more than a day away", u.version, last),
		hint:    fmt.Sprintf("use $(date +%%s), or %d", last+1),
		exit:    exitInvalid,
	}
}

func (u *update) conflict(err error) error {
	have := uint64(0)
	var e *protocol.Error
	if errors.As(err, &e) {
		have = e.Fence.K
	}
	return &failure{
		code:    protocol.ErrConflict.Name(),
		message: fmt.Sprintf("config_update: version %d is not above the last one, %d", u.version, have),
		hint:    "read the newest version, then publish yours with a higher number",
		exit:    exitConflict,
		cause:   err,
	}
}
