package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// LengthSize is the size of the length before each frame: a big-endian uint32
// that counts the bytes of the MessagePack array behind it.
const LengthSize = 4

// AppendFrame appends the length and the body that appendBody writes.
func AppendFrame(b []byte, f Frame) []byte {
	at := len(b)
	b = append(b, 0, 0, 0, 0)
	b = f.Append(b)
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-LengthSize))
	return b
}

// Reader cuts a byte stream into frames. It checks a length before it takes
// memory for it and grows its buffer only by what has arrived.
type Reader struct {
	r    io.Reader
	buf  []byte
	at   int // start of what is unread
	max  int
	fail error
}

// NewReader reads frames of up to max bytes.
func NewReader(r io.Reader, max int) *Reader { return &Reader{r: r, max: max} }

// SetMax changes the maximum for the frames that follow.
func (r *Reader) SetMax(max int) { r.max = max }

// Next returns the body of the next frame, valid until the following call.
// A clean end between two frames is io.EOF, an end inside one
// io.ErrUnexpectedEOF. A length of zero is ErrMalformed, one above the maximum
// ErrTooLarge; both are final.
func (r *Reader) Next() ([]byte, error) {
	if r.fail != nil {
		return nil, r.fail
	}
	if err := r.fill(LengthSize); err != nil {
		return nil, r.failed(err)
	}
	n := int64(binary.BigEndian.Uint32(r.buf[r.at:]))
	switch {
	case n == 0:
		return nil, r.failed(Errorf(ErrMalformed, "frame of length 0"))
	case n > int64(r.max):
		return nil, r.failed(Errorf(ErrTooLarge, "frame of %d bytes, maximum %d", n, r.max))
	}
	if err := r.fill(LengthSize + int(n)); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, r.failed(err)
	}
	body := r.buf[r.at+LengthSize : r.at+LengthSize+int(n)]
	r.at += LengthSize + int(n)
	return body, nil
}

// Buffered reports whether a whole frame is at hand without reading.
func (r *Reader) Buffered() bool {
	have := len(r.buf) - r.at
	return have >= LengthSize && have-LengthSize >= int(binary.BigEndian.Uint32(r.buf[r.at:]))
}

func (r *Reader) failed(err error) error {
	r.fail = err
	return err
}

const (
	readChunk = 16 << 10 // what one read asks for at least
	keepMax   = 64 << 10 // a buffer above this is given back when it is empty
)

// fill reads until n bytes are unread in the buffer. It never makes the buffer
// more than twice what has arrived plus one chunk.
func (r *Reader) fill(n int) error {
	for len(r.buf)-r.at < n {
		if r.at == len(r.buf) {
			r.buf, r.at = r.buf[:0], 0
			if cap(r.buf) > keepMax {
				r.buf = nil
			}
		}
		if cap(r.buf)-len(r.buf) < readChunk/4 {
			r.grow(n)
		}
		got, err := r.r.Read(r.buf[len(r.buf):cap(r.buf)])
		r.buf = r.buf[:len(r.buf)+got]
		if err != nil && len(r.buf)-r.at < n {
			if errors.Is(err, io.EOF) && len(r.buf) > r.at {
				return io.ErrUnexpectedEOF
			}
			return err
		}
		if got < 0 || got == 0 && err == nil && cap(r.buf) == len(r.buf) {
			return fmt.Errorf("read frame: %w", io.ErrNoProgress)
		}
	}
	return nil
}

func (r *Reader) grow(n int) {
	have := len(r.buf) - r.at
	want := max(readChunk, min(2*have+readChunk, n+readChunk))
	if cap(r.buf) >= want && r.at > 0 {
		copy(r.buf, r.buf[r.at:])
		r.buf, r.at = r.buf[:have], 0
		return
	}
	grown := make([]byte, have, want)
	copy(grown, r.buf[r.at:])
	r.buf, r.at = grown, 0
}
