package client

import "sync/atomic"

// Stats are counters since Dial.
type Stats struct {
	Published   uint64 // publishes handed over
	Acked       uint64
	Refused     uint64 // by the registry, or for a fault seen here
	Failed      uint64 // ended without an answer
	Resent      uint64
	Sent        uint64 // payload bytes sent, resends included
	Delivered   uint64 // messages put into subscriptions
	Received    uint64 // payload bytes of them
	Invalid     uint64 // delivered messages skipped for an invalid topic
	Gaps        uint64
	Connects    uint64 // sessions begun, the first included
	Disconnects uint64
	DialsFailed uint64
	Events      uint64 // events dropped for slow readers
}

type counters struct {
	published, acked, refused, failed, resent, sent atomic.Uint64
	delivered, received, invalid, gaps              atomic.Uint64
	connects, disconnects, dialsFailed, events      atomic.Uint64
}

// Stats reads the counters.
func (c *Client) Stats() Stats {
	s := &c.stats
	return Stats{
		Published: s.published.Load(), Acked: s.acked.Load(), Refused: s.refused.Load(), Failed: s.failed.Load(),
		Resent: s.resent.Load(), Sent: s.sent.Load(),
		Delivered: s.delivered.Load(), Received: s.received.Load(), Invalid: s.invalid.Load(), Gaps: s.gaps.Load(),
		Connects: s.connects.Load(), Disconnects: s.disconnects.Load(), DialsFailed: s.dialsFailed.Load(),
		Events: s.events.Load(),
	}
}
