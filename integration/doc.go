// Package integration holds the tests that need more than the product itself: a
// NATS cluster, a browser, processes that are killed, disks that are full.
package integration
