// Package config shares one configuration with a swarm of agents: versions that
// rise, updates that are whole or not at all, and a way back.
//
// The messages are those of the swarm-config recipe, so scripts and programs
// stand in one swarm: what either publishes both apply, and what either reports
// counts.
//
//	swarm, err := config.Open(ctx, c, "worker-pool", config.Options{})
//	…
//	p, err := swarm.Publish(ctx, []byte(`{"max_workers":10}`), config.PublishOptions{})
//
// and on each agent
//
//	file, err := config.OpenFile(config.FileOptions{Swarm: "worker-pool"})
//	…
//	err = swarm.Follow(ctx, file, config.FollowOptions{})
//
// or, for a program that wants a value and not a file, [Subscribe].
//
// # Versions
//
// A version is a number and a JSON object, whose bytes are kept as they are: order
// and case of names, spelling of numbers, integers of any length. What an agent
// applies has the digest of what was published.
//
// Versions rise. By default the next one is unix seconds, as scripts use them, or
// one more than the last. Each is published under the fence of the swarm's topic,
// so of several writers with one version exactly one succeeds, and the others are
// told ([ConflictError]). Messages that have not passed the fence with their
// version are void: agents do not apply them.
//
// Nothing ever goes back to a lower version. [Swarm.Rollback] publishes a new one
// with the content of an old one, so that it stays rolled back everywhere. The one
// exception is an agent that was rolled back on its own machine: it is pinned, and
// stays at what it has until told otherwise.
//
// Absent is not empty: a registry that has lost its log takes nothing away. Agents
// keep what they have, say that the registry is behind, and go on with the next
// version that is higher.
//
// # Reports
//
// Each agent says on config:status:NAME what it runs, as the recipe does, and how
// it got on. [Swarm.Compliance] makes of that what each agent is at: it goes by who
// sent a report, not by what the report says of itself. [Swarm.WaitFor] waits.
//
// # Rollouts
//
// [Swarm.StartRollout] stages a version, which then reaches a few agents first and
// all in the end, or is rolled back. The staged version is published as another
// type of message, config_stage, on the same topic: scripts take the last
// config_update and do not see it, and its number is taken from the beginning. When
// the rollout is complete the same version and bytes are published once more as a
// config_update: scripts apply it, and agents that have it do nothing. How far a
// rollout is stands on config:rollout:NAME, so that any node can take over. Agents
// apply a staged version only once it says that it has come to them.
//
// # Links without fences
//
// Over a link that checks no fences everything works as well as can be, and
// [Swarm.BestEffort] says so: a version counts as each agent first reads it, and
// two writers at once may part the swarm until the next version. There are no
// rollouts there, nothing is published under a leadership, and where the link
// retains no messages there is no history.
//
// # Secrets
//
// Secrets do not belong in a configuration. Every node that may read the topic
// reads all of it, the registry keeps a thousand versions of it without age, each
// agent leaves copies on its disk, and validators, diffs and logs show parts. What
// has been published cannot be taken back. Put a name there under which the agent
// finds the secret in its own store.
package config
