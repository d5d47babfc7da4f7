package disklog_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/disklog"
)

func Example() {
	dir, err := os.MkdirTemp("", "registry")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	publish := func() error {
		l, err := disklog.Open(filepath.Join(dir, "log"), disklog.Options{})
		if err != nil {
			return err
		}
		defer l.Close()
		head, _ := l.Head()
		r := &registry.Record{}
		r.Seq, r.Time, r.Sender, r.Topic = head+1, protocol.Time(head), 1<<31, "jobs.created"
		r.Key, r.Payload = fmt.Append(nil, r.Seq), fmt.Append(nil, "job ", r.Seq)
		r.Seal()
		if err := l.Append(&registry.Batch{Records: []*registry.Record{r}}); err != nil {
			return err
		}
		page := registry.Page{MaxRecords: 100}
		if err := l.Read(&registry.Selection{Pattern: "jobs.*"}, 0, r.Seq, &page); err != nil {
			return err
		}
		for _, r := range page.Records {
			fmt.Printf("%d %s %s\n", r.Seq, r.Topic, r.Payload)
		}
		return nil
	}
	for range 2 { // the second finds what the first has left
		if err := publish(); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// 1 jobs.created job 1
	// 1 jobs.created job 1
	// 2 jobs.created job 2
}
