package registry

import "github.com/pilotgo/pilotgo/protocol"

const (
	inboxNewest   = 10_000 // messages that one listing looks at
	inboxPerTopic = 100    // but at least so many of each topic
)

// inboxPage reads a portion of a node's inbox behind after: the newest limit
// messages (0 = 10,000) on the topics it joined and of those sent to it directly,
// and of each topic at least the newest 100. next is where the following portion
// begins, 0 when there is none; page.Truncated tells that older ones were left
// out.
func inboxPage(l Log, joined map[string]struct{}, node protocol.NodeID, after protocol.Seq, limit int, page *Page) (next protocol.Seq, err error) {
	if limit <= 0 {
		limit = inboxNewest
	}
	head, _ := l.Head()
	if err := l.ReadNewest(&Selection{Topics: joined, Direct: node}, after, limit, inboxPerTopic, page); err != nil {
		return 0, err
	}
	if page.Scanned < head {
		next = page.Scanned
	}
	return next, nil
}
