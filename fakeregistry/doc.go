// Package fakeregistry is a registry for tests: the real one, on a log in memory,
// behind a network that can be cut, with faults to inject at every step and eyes
// to see what came of them.
//
// It is no imitation. What your code meets here is the registry that runs in
// production, over the real QUIC stack; only the packets are simulated. So a test
// that passes here says something.
//
// # A first test
//
// In a bubble of testing/synctest time is virtual: a test that waits for a minute
// takes milliseconds.
//
//	func TestJobsArriveAfterAnOutage(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			reg := fakeregistry.New(t, fakeregistry.Options{Latency: 20 * time.Millisecond})
//			e := reg.Endpoint("worker")
//			c, err := client.Dial(t.Context(), e.Addr, client.Options{
//				Key: e.Key, PacketConn: e.PacketConn, RegistryKey: e.RegistryKey, NoState: true,
//			})
//			…
//			defer c.Close()
//
//			reg.Partition("worker", fakeregistry.Host)
//			time.Sleep(time.Minute) // virtual
//			reg.HealAll()
//			…
//		})
//	}
//
// [New] ends with the test, and everything must have ended before the bubble
// does: close what you dialled. When the test has failed its log shows what
// happened at the registry, with virtual times. [Registry.Endpoint] gives a node
// its key, made from the name, so that node ids are the same in every run.
//
// For other processes there are [Listen], on a loopback socket and in real time,
// and [Start], which needs no test; the command "pilotgo registry fake" is the
// latter.
//
// # Nodes
//
// Faults and inspection name nodes: by what Endpoint was asked for, by the name
// that a client told when it connected, or by its node id in digits. The
// registry's own node is [Host]. An empty name, where one may be, is every node. A
// fault may name a node that is still to come; one that never comes is a misspelt
// name, and an error of the test when that ends: see [Registry.Strangers].
//
// After Listen and Start all packets go through the same simulated network. Each
// node that Endpoint was asked for has a port of its own and is known by it. A
// client that dials the common address is known once it has said its name: a
// partition lets its handshake pass and nothing after it.
//
// # Faults
//
// Of the network, each like a cable that is pulled and never a connection that
// is closed: [Registry.Partition], [Registry.PartitionOneWay],
// [Registry.Isolate], [Registry.Heal], [Registry.HealAll], and
// [Registry.SetLink] for latency, loss, doubled and reordered packets.
//
// Of the machine: [Registry.Stop] and [Registry.Crash] (a power cut),
// [Registry.CrashFor], [Registry.Shutdown] (an operator), [Registry.Start] with
// the log as it was, [Registry.StartEmpty] with a new one of another epoch;
// [Registry.Restart] and [Registry.RestartEmpty] are both in one. A client that
// is idle learns of a crash by silence alone, after its Idle time. Further
// [Registry.StorageFull], [Registry.SetRetention], [Registry.Purge],
// [Registry.Expire], [Registry.SetLimits], [Registry.SetClock] and
// [Registry.NewKey].
//
// Of the answers: [Registry.Fail], [Registry.FailNext] and
// [Registry.RefuseConnects] refuse operations with a code; [Registry.DelayAcks],
// [Registry.DropAcks] and [Registry.OnAck] delay or lose what tells that a
// message is stored; [Registry.Mute] hears and says nothing, [Registry.Stall]
// pushes no messages, [Registry.Disconnect] ends sessions.
//
// At a moment: [Registry.At] calls you before or after a message is stored, or
// acknowledged, and you crash the registry just there.
//
// Of the mind: [Registry.Hostile] puts a registry in its place that sends the
// bytes you choose.
//
// [Registry.ClearFaults] takes back all of them at once.
//
// # History
//
// [Registry.Inject] puts messages into the log past all checks: what a dead node
// said an hour ago, topics that no registry accepts, stamps that nobody earned.
//
// # Inspection
//
// [Registry.Messages], [Registry.Direct], [Registry.Fence], [Registry.Head],
// [Registry.Epoch] look at the log, also while the registry is stopped;
// [Registry.Sessions], [Registry.Subscriptions] and [Registry.Info] at the
// registry. [Registry.Events] is what happened, with times. Inside a bubble call
// synctest.Wait before you look; outside of one [Registry.WaitFor] waits for an
// event.
//
// # Promises
//
// A [Checker] knows every message that was ever in the log. Tell it what your
// subscriptions and publishers were told, and it finds what was lost without a
// gap, delivered twice or out of order, invented, or acknowledged and not stored.
//
// # Scripts of faults
//
// [ParseFaults] reads faults with their times from JSON, [RunScript] makes them
// happen; see "pilotgo registry fake --faults FILE". Each fault is an object with
// "at", a duration from the start like "1.5s", and "do". "node" is every node
// where it may be missing, which a "?" marks; "times" missing is for ever.
//
//	partition      node, other?, direction?      other: "registry"; direction: "both", "to" or "from" other
//	heal           node?, other?                 without node: everything
//	link           from?, to?, latency?, jitter?, loss?, duplicate?, reorder?, bandwidth?
//	refuse         node?, times?, code?, retry_after?       connects; code: "unavailable"
//	fail           op, node?, topic?, skip?, times?, code?, retry_after?   code: "internal"
//	delay_acks     delay, node?                  "0s" ends it
//	drop_acks      node?, times?
//	mute, unmute, stall, unstall, disconnect     node?
//	crash_at       point, node?, topic?, skip?, down?       down: for how long
//	stop, start, start_empty, restart, restart_empty, clear
//	shutdown       within?                       "5s"
//	storage_full   full?                         true
//	retention      messages?, versions?, age?, topic_bytes?, total_bytes?
//	purge          topic
//	clock          offset                        like "-1h"
//	new_key        signed?                       true
//	inject         from, topic, payload, slot?   payload: any JSON, stored as it stands there
//
// Codes are those of [protocol.Code.Name], operations those of [Ops], points those
// of [Points]. For example:
//
//	[
//	  {"at": "2s",  "do": "partition", "node": "worker"},
//	  {"at": "20s", "do": "heal"},
//	  {"at": "25s", "do": "fail", "op": "publish", "topic": "jobs.*", "times": 3, "code": "rate_limited", "retry_after": "1s"},
//	  {"at": "30s", "do": "restart_empty"}
//	]
package fakeregistry
