// Command bench puts pilotgo beside a bare QUIC relay: the same work, in one run,
// in turn, so that a ratio holds while the machine's speed drifts.
//
//	go run . compare              # all rows, 5 rounds in turn
//	go run . compare -rounds 3 push ack
//	go run . conns -n 5000 -runs 8
//	go run . election             # failover, handover, followers, candidates
//	go run . election -kills 10 -json figures.json failover
//	go run . config               # apply, crowd, compliance, history
//	go run . config -crowd 200 -json figures.json crowd
//
// The relay is the ceiling for this design on QUIC: in memory, one topic, records
// with a two-byte length, pushed to every subscriber, an eight-byte sequence as
// the ack, coalescing writers; no MessagePack, no retention, no authentication of
// the client. The server of each side is a process of its own; publisher and
// subscribers share one client process, each with its own connection. Payloads
// have 128 bytes.
//
// Elections are measured with the LAN profile over QUIC on loopback: the time
// from kill -9 of a leader's process to its successor's accepted claim, a clean
// handover in round trips of the same run, the processor time of many followers
// in one process, and how much many candidates publish when their leader dies.
//
// Configuration is measured over QUIC on loopback too: from a publish until an
// agent has the file on the disk and another client knows, until all of many
// agents in one process run it, how long it takes to sum up the reports of many,
// and what is asked of a long history.
package main
