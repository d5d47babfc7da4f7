package client

// Stats are counters since Dial.
type Stats struct {
	Published   uint64 // publishes handed over
	Acked       uint64
	Refused     uint64
	Failed      uint64 // publishes that ended without an answer
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

// Stats reads the counters.
func (c *Client) Stats() Stats { return Stats{} }
