// Package jetlog is a registry's log on a NATS JetStream cluster: any number of
// registries, which keep nothing of their own, have one log, one identity and one
// set of rules there.
//
// # One stream is the order
//
// Every registry decides by itself, as one over a log of its own does, and then
// puts what it decided into one stream: records, fences, keys and rows of one
// step are one message (or several fragments, where they are more than a message
// holds). Nobody else has to decide again, so registries of two versions need to
// agree only on what a batch says, not on the rules that led to it.
//
// Each batch names the stream sequence of the last message that its registry has
// seen. It counts only when it stands right behind that, and a registry has
// taken everything up to there before it decides: so each decision is made by all
// the log there is, and the place in the stream is where it happens. A batch that
// stands elsewhere is nothing, for every reader alike. The header
// Nats-Expected-Last-Sequence makes servers refuse such batches, which spares the
// stream most of them; that nothing else comes of them does not depend on it.
// What the package needs of JetStream is the one order of a replicated stream,
// that what was acknowledged stays, and that a consumer brings only what is
// committed.
//
// A registry whose batch was refused takes what stands before it (see
// registry.SharedLog), and decides again. One of several that write at once
// always gets on.
//
// Linearizable are: publishes with all that belongs to them (conditions,
// idempotency keys, slots), refusals of conditions, the reading and setting of a
// fence, joins, cursors, admissions. The refusal of a condition, and a fence that
// is read, are held against the stream by an empty batch before they are told. A
// session begins behind everything that was acknowledged before, since its
// admission is a batch. Subscriptions, inboxes and lists show the log up to what
// their registry has taken, which is behind the others by the time of a delivery,
// and never back again; who resumes ahead of it waits.
//
// # Unknown outcomes
//
// An ack that was lost is found out about by sending the same batch again behind
// the same message: if the stream then shows it there, it is stored; if it shows
// something else there, it never will be. While neither can be had within
// Options.Timeout, Append fails with protocol.ErrUnknownOutcome, and the registry
// ends the sessions concerned without an answer: their clients send again, there
// or on another registry, and the keys settle what was in the log already. Until
// the cluster answers again everything else is refused with protocol.ErrDraining
// (surely not stored; clients keep it and go on elsewhere), and reading goes on.
//
// A log looks at its stream every five seconds. It goes to another server when the
// one that it has does not answer, or answers and commits nothing; makes a snapshot
// when others purged what none has; and ends (Lost) when the stream was deleted, or
// given a form by which it loses messages. Where a stream ends is taken from a
// message that was committed: a server that was cut off tells the past.
//
// # What is read
//
// Each registry takes the whole stream once, through an ordered consumer, into a
// memlog, and reads from that alone. Memory is so what is retained, about
// RecordOverhead and the payload for each message, on each registry:
// Retention.TotalBytes has to fit the smallest. In return a read costs what it
// costs a registry on its own, and goes on without the cluster.
//
// # Retention
//
// The limits of a stream are the same for all that is in it, so they are not
// used. Retention is what the memlog does at each batch, which depends on the log
// alone: every registry loses the same messages at the same place. Purges, the
// expiry of idle logs, and another retention are messages in the stream too.
//
// What the stream holds is shortened by snapshots. The registry whose batch passes
// the next multiple of Options.SnapshotBytes (or of the last snapshot's size,
// where that is more) writes all that is retained, and the keys and tables, to
// the second stream, names it the newest by a conditional publish
// (Nats-Expected-Last-Subject-Sequence), and purges the log up to the snapshot
// before. So the streams have at most about four times what is retained, and each
// byte is written about twice. A registry starts with the newest snapshot and
// what follows; one that was away for so long that what it needs is purged does
// the same (registry.ErrReloaded).
//
// # Epoch, identity, keys
//
// The first message of the stream, put there on condition that there is none, is
// the epoch, and each message names it. Identity and ticket keys are random bytes
// in the second stream, each put there on condition that there is none; whoever
// may read that stream has them. Streams that pilotgo did not make (by their
// metadata), or that were given limits by which they lose messages, are refused.
// A stream that ends before what a registry, or a snapshot, knows of has lost what
// was acknowledged: the registry stops writing for good, and Open refuses; both
// streams then have to be removed, which begins another epoch.
//
// # What it lasts
//
// An ack means that a majority of the stream's replicas have the batch; servers
// sync their files to disk every two minutes unless sync_interval says otherwise.
// To survive that a majority loses power at once, set sync_interval: always. When
// the server that leads the stream dies, the others take four to nine seconds to
// elect another; publishes wait for that.
//
// Servers are of NATS 2.10 or later (metadata of streams).
package jetlog
