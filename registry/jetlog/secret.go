package jetlog

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pilotgo/pilotgo/protocol"
)

// Key is the identity of the log, made by the first registry that asks. Whoever
// may read the stream NAME_STATE has it.
func (l *Log) Key(ctx context.Context) (ed25519.PrivateKey, error) {
	seed, err := l.Secret(ctx, "identity", ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// Secret is size random bytes that all registries of the log have in common, by
// name: the first to ask makes them.
func (l *Log) Secret(ctx context.Context, name string, size int) ([]byte, error) {
	subject := l.stateName() + ".secret." + name
	b := make([]byte, size)
	_, _ = rand.Read(b) // never fails
	_, err := l.js.Publish(ctx, subject, b, jetstream.WithExpectLastSequencePerSubject(0))
	if err == nil {
		return b, nil
	}
	if !isConflict(err) {
		return nil, l.unusable(err)
	}
	stream, err := l.js.Stream(ctx, l.stateName())
	if err != nil {
		return nil, l.unusable(err)
	}
	m, err := stream.GetLastMsgForSubject(ctx, subject)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return nil, protocol.Errorf(protocol.ErrInternal, "secret %s is being made", name)
	case err != nil:
		return nil, l.unusable(err)
	case len(m.Data) != size:
		return nil, protocol.Errorf(protocol.ErrInternal, "secret %s has %d bytes, not %d", name, len(m.Data), size)
	}
	return m.Data, nil
}
