package config_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pilotgo/pilotgo/config"
)

// A file that follows a swarm, with a schema in front of it.
func ExampleOpenFile() {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	f, err := config.OpenFile(config.FileOptions{
		Swarm:  "worker-pool",
		Target: filepath.Join(dir, "swarm-config.json"),
		State:  filepath.Join(dir, "state.json"),
		Validator: &config.Schema{JSON: []byte(`{
			"required": ["max_workers"],
			"properties": {"max_workers": {"type": "integer", "minimum": 1}}
		}`)},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()

	// Swarm.Follow does this for each version that it reads.
	for version, text := range []string{`{"max_workers":10}`, `{"max_workers":0}`} {
		d, err := config.NewDocument(uint64(version)+1767225600, []byte(text))
		if err == nil {
			err = f.Apply(context.Background(), d)
		}
		fmt.Println(err)
	}
	for _, name := range []string{"swarm-config.json", "swarm-config-version.txt"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		fmt.Printf("%s %v\n", b, err)
	}
	// Output:
	// <nil>
	// /max_workers: minimum: want 1
	// {"max_workers":10} <nil>
	// 1767225600
	//  <nil>
}
