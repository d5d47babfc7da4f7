package integration

import "testing"

// NewCluster starts NATS servers in this process for tests that see pilotgo from
// outside, and returns their URLs.
func NewCluster(t testing.TB, size int) (urls string) { return newCluster(t, size).url() }

// Server is what a NATS server that is a process is told.
type Server = childServer

// StartServer starts it.
var StartServer = startServer

// FreePorts are TCP ports of the loopback address.
var FreePorts = freePorts

// FenceTopic is the topic of a FenceRace.
const FenceTopic = fenceTopic
