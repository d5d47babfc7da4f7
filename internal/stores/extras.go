package stores

import (
	"io"
	"path/filepath"

	"github.com/pilotgo/pilotgo/internal/extras"
	"github.com/pilotgo/pilotgo/registry/disklog"
)

// Extras are what the larger program has.
func Extras() extras.Set {
	return extras.Set{
		OpenStore: Open,
		CheckStore: func(folder string) (any, []string, error) {
			r, err := disklog.Check(folder, disklog.Options{})
			if err != nil {
				return nil, nil, err
			}
			return holds{
				Epoch: r.Epoch.ID.String(), Head: uint64(r.Head), Topics: r.Topics, Messages: r.Messages, Bytes: r.Bytes,
				Keys: r.Keys, Fences: r.Fences, HasKey: r.HasKey,
			}, r.Faults, nil
		},
		ImportStore: func(folder string, from io.Reader) error {
			// The folder is put in its place by a rename, which would put it in place of a
			// link and not where that leads.
			if real, err := filepath.EvalSymlinks(folder); err == nil {
				folder = real
			}
			return disklog.Import(folder, from, disklog.Options{})
		},
		NewOperator: func() extras.Operator { return newOperator() },
	}
}

// holds is what a check tells of a folder.
type holds struct {
	Epoch    string `json:"epoch"`
	Head     uint64 `json:"head"`
	Topics   int    `json:"topics"`
	Messages int    `json:"messages"`
	Bytes    int64  `json:"bytes"`
	Keys     int    `json:"keys"`
	Fences   int    `json:"fences"`
	HasKey   bool   `json:"has_key"`
}
