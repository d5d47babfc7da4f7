package integration

import "testing"

// NewCluster starts NATS servers in this process for tests that see pilotgo from
// outside, and returns their URLs.
func NewCluster(t testing.TB, size int) (urls string) { return newCluster(t, size).url() }
