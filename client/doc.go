// Package client connects to a registry host: it publishes to topics, subscribes
// to them and reads the inbox. It survives lost connections by itself.
//
//	c, err := client.Dial(ctx, "reg.example", client.Options{})
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//
//	ack, err := c.PublishTo(ctx, "jobs.created", []byte(`{"id":7}`))
//
//	sub, err := c.Subscribe(ctx, "jobs.*", client.FromAll())
//	for m, err := range client.Messages(ctx, sub) {
//		…
//	}
//
// # Publishing
//
// A registry keeps one log; [Client.Publish] asks it to append a message. It
// returns at once with a [Pending], so that many can be on their way:
//
//	p := c.Publish(ctx, client.Publication{Topic: "jobs.created", Payload: payload})
//	…
//	ack, err := p.Wait(ctx)
//
// An ack means that the message is in the log, as durable as that log is, and
// nothing less is reported as success. Publishes enter the log in the order of the
// calls, also across lost connections, and a refused one does not hold up the
// next. Urgent ones ([Publication].Urgent, for heartbeats) have an order of their
// own and never wait behind the others.
//
// When a connection is lost before the answer, the client sends again under the
// same idempotency key, and the registry stores it once. Where it cannot know, the
// error is protocol.ErrUnknownOutcome: the message may be in the log or not.
//
// ctx bounds both the call and the wait for the answer. While there is no
// connection a publish waits for one; when its ctx ends it is withdrawn, and never
// sent later. There is no offline buffer.
//
// # Subscribing
//
// [Client.Subscribe] hands over the messages of a topic or a pattern in log order,
// each at most once, own ones too. Besides messages, [Stream].Next tells where
// history ends (ItemCaughtUp), what was lost to retention (ItemGap), that the
// connection was lost (ItemDisconnected) and that the registry has another log
// now (ItemEpoch). The subscription itself goes on until Close: after a reconnect
// it continues behind what it had.
//
// A reader may be slow. A subscription holds 256 messages or 1 MiB, then the
// registry waits for that reader, and for nobody else.
//
// # Connections
//
// Dial makes the first connection and fails if it cannot. After that the client
// dials again whenever the connection is lost, with delays that double from 50 ms
// to 2.5 s and are drawn at random, until Close. [Client.Events] tells what
// happens. Some errors do not go away by trying again (a wrong key, an identity
// that is not admitted): calls then fail with them at once instead of waiting,
// while the client goes on trying now and then.
//
// A registry that has gone is missed by who waits for an answer of it: a publish, a
// request, or the ping that goes out each three seconds. Where the host is up and
// nobody listens there any more, the system says so, and the connection ends within
// half a second; with [Options].PacketConn, on Windows and behind firewalls that
// drop such words, it does not. A host that is off, a network that is cut and a
// process that stands still are told by silence: after 1 to 1.5 s of it, more on slow
// lines, the other addresses are dialled, where there are some. The first to answer
// takes over, unless the silent one is heard before. Silence is that of the
// registry's transport: a registry that waits for its disk is not silent. With one
// address the connection ends 5 s after a ping that nobody answers.
//
// # Errors
//
// Errors are matched with errors.Is against the codes of package protocol; a
// refusal by the registry is a *[protocol.Error] with what there is to know, such
// as RetryAfter. When ctx ended the call, the error is also that of ctx. After
// Close every call fails with net.ErrClosed.
//
// # Identity
//
// A client proves an Ed25519 key; messages carry the node id made from it. Without
// [Options].Key it is the one of the user's identity file. The registry proves its
// key too, and the first one met at an address is remembered: another one there
// later is protocol.ErrWrongKey, unless the first has signed it.
package client
