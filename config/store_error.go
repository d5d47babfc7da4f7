package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/pilotgo/pilotgo/protocol"
)

// FileError is why a [File] could not do something with one of its files. It is
// never protocol.ErrInvalid, which is of documents, but where OpenFile got paths
// that cannot be.
type FileError struct {
	Code protocol.Code
	Path string
	Err  error

	hint string
}

func (e *FileError) Error() string {
	var path *fs.PathError
	if errors.As(e.Err, &path) && path.Path == e.Path {
		return "config file: " + e.Err.Error()
	}
	return fmt.Sprintf("config file %s: %v", e.Path, e.Err)
}

// Unwrap gives the code, and what the system said.
func (e *FileError) Unwrap() []error { return []error{e.Code, e.Err} }

// Hint tells a person what to do; it may be empty.
func (e *FileError) Hint() string {
	if e.hint != "" {
		return e.hint
	}
	switch e.Code {
	case protocol.ErrStorageFull:
		return "free space on the disk that holds the file, or raise the limit or quota that was met"
	case protocol.ErrDenied:
		return "let this user write to the folder of the file, or choose another path"
	case protocol.ErrNotFound:
		return "make the folder that the file is to be in"
	default:
		return ""
	}
}

// fileError types an error of the system about path; nil is nil, and what is typed
// already stays.
func fileError(path string, err error) error {
	if typed := new(FileError); err == nil || errors.As(err, &typed) {
		return err
	}
	return &FileError{Code: codeOfFile(err, protocol.ErrInternal), Path: path, Err: err}
}

func fileErrorf(code protocol.Code, path, hint, format string, args ...any) error {
	return &FileError{Code: code, Path: path, Err: fmt.Errorf(format, args...), hint: hint}
}

// codeOfFile is the code for an error of the system, or other.
func codeOfFile(err error, other protocol.Code) protocol.Code {
	switch {
	case isFull(err):
		return protocol.ErrStorageFull
	case errors.Is(err, fs.ErrPermission) || isReadOnly(err):
		return protocol.ErrDenied
	case errors.Is(err, fs.ErrNotExist) || isBadPath(err):
		return protocol.ErrNotFound
	case errors.Is(err, errTooLarge):
		return protocol.ErrTooLarge
	}
	return other
}

var errTooLarge = errors.New("larger than may be read")

// readAtMost reads all of r, but no more than most bytes.
func readAtMost(r io.Reader, most int) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	if err == nil && len(b) > most {
		err = errTooLarge
	}
	return b, err
}
