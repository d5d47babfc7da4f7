// Package election elects one leader in a group of agents that share a topic.
//
// The messages are those of the leader election recipe, so scripts and programs
// stand in one group: a script can be followed and makes programs wait, but only
// the registry's fence decides terms between programs. The rules, each with what
// happens without it, are in docs/election-rules.md.
package election
