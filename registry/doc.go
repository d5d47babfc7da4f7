// Package registry is the server side of pilotgo: a registry host, which keeps
// one log of messages and gives each its place in it.
//
// # Embedding
//
// A [Registry] is made over a [Log], such as that of package memlog, and the
// Ed25519 key that is the log's identity. [Registry.Serve] takes sessions from a
// socket of the caller's, [Registry.Listen] from one of its own:
//
//	log := memlog.New(memlog.Options{})
//	defer log.Close()
//	r, err := registry.New(registry.Options{Log: log, Key: key})
//	if err != nil {
//		return err
//	}
//	defer r.Close()
//	addr, err := r.Listen("127.0.0.1:9002")
//
// Without [Options.Access] everybody may do everything; a registry then serves
// loopback addresses only. [Registry.Shutdown] sends the clients away and answers
// what it has received; Close ends all at once. Both wait until nothing of the
// registry is left. The log is closed by who made it, after the registry.
//
// # What it promises
//
// A publish is acknowledged once the log has it, and the log decides how durable
// that is. Nothing is delivered that is not in the log, and every reader sees the
// log's order. A publish that is sent again is stored once, as long as the log
// remembers its key, and refused as of unknown outcome after that. Conditions on
// fences are decided in the same step as the place in the log. What is refused is
// told with a code of package protocol, never dropped.
//
// Memory is bounded: by [Limits] for what clients have under way, by [Retention]
// for what the log keeps. A reader is a position in the log and not a queue, so a
// slow one costs nothing and holds up nobody. Of clients that come back under one
// instance only the newest session lives.
//
// # Writing a log
//
// Implement [Log] and run package logtest over it. The registry alone decides;
// a log stores batches whole, reads, and applies retention.
package registry
