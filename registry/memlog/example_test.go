package memlog_test

import (
	"fmt"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/memlog"
)

func Example() {
	l := memlog.New(memlog.Options{Retention: registry.Retention{Messages: 2}})
	defer l.Close()

	for seq := range protocol.Seq(4) {
		r := &registry.Record{}
		r.Seq, r.Time, r.Sender, r.Topic = seq+1, protocol.Time(seq), 1<<31, "jobs.created"
		r.Key, r.Payload = fmt.Append(nil, seq), fmt.Append(nil, "job ", seq)
		r.Seal()
		if err := l.Append(&registry.Batch{Records: []*registry.Record{r}}); err != nil {
			fmt.Println(err)
		}
	}

	page := registry.Page{MaxRecords: 100}
	head, _ := l.Head()
	if err := l.Read(&registry.Selection{Pattern: "jobs.*"}, 0, head, &page); err != nil {
		fmt.Println(err)
	}
	for _, r := range page.Records {
		fmt.Printf("%d %s %s\n", r.Seq, r.Topic, r.Payload)
	}
	fmt.Println("gone up to", page.Evicted)
	// Output:
	// 3 jobs.created job 2
	// 4 jobs.created job 3
	// gone up to 2
}
