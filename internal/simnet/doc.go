// Package simnet is a network of UDP sockets inside one process. It delays,
// loses, doubles, reorders and cuts off packets, per pair of nodes and per
// direction, so that tests run the real QUIC stack and every fault is a fault
// of packets.
//
// Nodes have names and come into being when first named. [Network.Listen]
// gives a node a socket, [Network.Addr] is the text to dial it by,
// [Network.SetLink] says how packets travel from one node to another.
//
//	n := simnet.New(simnet.Options{Latency: 10 * time.Millisecond, Seed: 1})
//	defer n.Close()
//	server := n.Listen("registry")
//	n.SetLink("a", "registry", simnet.Link{Latency: time.Second, Loss: 0.2})
//	n.PartitionOneWay("registry", "a")
//
// # Time
//
// A packet arrives exactly when its link says, by a timer. Inside a
// testing/synctest bubble that is virtual time; the network is then made,
// used and closed in that bubble. Outside of one it is real time. Nothing
// ticks: an idle network costs nothing, however many hours go by.
//
// # Order
//
// Packets from one node to another arrive in the order sent, Jitter or not,
// unless Reorder holds one back or SetLink changes the link in between: packets
// on the new link do not wait for those still under way on the old one.
//
// # Chance
//
// Each direction between two nodes has its own generator, made from the seed
// and the two names, and each packet takes the same number of draws whatever
// the link. So what chance does to the tenth packet from a to b is decided by
// the seed alone, not by how goroutines interleave. (QUIC itself draws
// connection ids and padding from crypto/rand; a whole connection is not
// repeated bit by bit.)
//
// # Bounds
//
// A socket holds 4096 unread packets, a direction 16384 packets under way, and
// the line of a link with a Bandwidth has a queue of 200 ms. What finds no room
// is lost and counted, as on a real network.
//
// # End
//
// [Network.Close] closes all sockets, forgets what is under way and waits for
// what the network started.
package simnet
