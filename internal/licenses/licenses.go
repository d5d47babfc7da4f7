// Package licenses has the licence texts of all that is linked into the programs,
// since most of them ask to be passed on with a binary.
package licenses

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
)

// packed is unpacked only when asked for: the programs start without it.
//
//go:embed licenses.txt.gz
var packed []byte

// Text returns the texts, each behind the names of the modules it is for.
func Text() (string, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(r)
	return string(text), err
}
