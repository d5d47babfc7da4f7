// Command bench puts pilotgo beside a bare QUIC relay: the same work, in one run,
// in turn, so that a ratio holds while the machine's speed drifts.
//
//	go run . compare              # all rows, 5 rounds in turn
//	go run . compare -rounds 3 push ack
//	go run . conns -n 5000 -runs 8
//
// The relay is the ceiling for this design on QUIC: in memory, one topic, records
// with a two-byte length, pushed to every subscriber, an eight-byte sequence as
// the ack, coalescing writers; no MessagePack, no retention, no authentication of
// the client. The server of each side is a process of its own; publisher and
// subscribers share one client process, each with its own connection. Payloads
// have 128 bytes.
package main
