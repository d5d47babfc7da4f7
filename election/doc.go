// Package election elects one leader in a group of agents that share a topic.
//
//	err := election.Run(ctx, conn, election.Options{Group: "sweepers"},
//		func(ctx context.Context, l *election.Leadership) error {
//			… // what only one does at a time, until ctx ends
//		})
//
// [Run] campaigns and calls the function each time this member is elected. Its
// context is the leadership: it ends before anybody else leads, by this process's
// own clock, whatever the network does. [Join] makes a [Member], for those who
// want to campaign by hand, to look on ([Member.Observe], [Member.Status]) or to
// ask the leader to resign.
//
// # What a leader may rely on
//
// At most one member holds a lease at a time, as long as clocks run equally fast
// within one percent and, on systems other than Linux, machines are not
// suspended. Nothing that runs on clocks can promise more: a process that stands
// still between a look at [Leadership.Valid] and a write writes late. What must
// not happen then is published under the fence of the term, with
// [Leadership.Publish]: the registry refuses it as protocol.ErrStaleTerm once a
// later term has begun. [Leadership.Token] is for those who guard something else
// with it.
//
// # How fast
//
// [Timing] has profiles: in [LAN] another member leads about 450 ms after the
// leader died, and two messages after it resigned. A group at rest costs one
// publish in each Timing.Heartbeat, whatever its size.
//
// # Scripts and other links
//
// The messages are those of the leader election recipe, so scripts and programs
// stand in one group: a script can be followed and makes programs wait, but only
// the registry's fence decides terms between programs. Over a link without fences
// or a common order, the same calls do what can be done: [Status].BestEffort says
// so, two can lead for a while, and Leadership.Publish fails with
// errors.ErrUnsupported.
//
// The rules, each with what happens without it, are in docs/election-rules.md.
package election
