package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

// LengthSize is the size of the length before each frame: a big-endian uint32
// that counts the bytes of the MessagePack array behind it.
const LengthSize = 4

// AppendFrame appends a frame with its length before it. It allocates nothing
// when b has room and f is kept from one call to the next.
func AppendFrame(b []byte, f Frame) []byte {
	at := len(b)
	b = append(b, 0, 0, 0, 0)
	b = f.Append(b)
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-LengthSize))
	return b
}

// Reader cuts a byte stream into frames. It checks a length before it takes
// memory for it and grows its buffer only by what has arrived. While it waits for
// a frame it has no buffer.
type Reader struct {
	r    io.Reader
	buf  []byte
	at   int // start of what is unread
	lent *chunk
	head [LengthSize]byte // the buffer between two frames
	most int
	fail error
}

// NewReader reads frames of up to most bytes.
func NewReader(r io.Reader, most int) *Reader { return &Reader{r: r, most: most} }

// SetMax changes the maximum for the frames that follow.
func (r *Reader) SetMax(most int) { r.most = most }

// Next returns the body of the next frame, valid until the following call.
// A clean end between two frames is io.EOF, an end inside one
// io.ErrUnexpectedEOF. A length of zero is ErrMalformed, one above the maximum
// ErrTooLarge; both are final. After any other error Next goes on where it was.
func (r *Reader) Next() ([]byte, error) {
	if r.fail != nil {
		return nil, r.fail
	}
	if err := r.fill(LengthSize); err != nil {
		return nil, err
	}
	n, err := r.length()
	if err != nil {
		r.fail = err
		return nil, err
	}
	if err := r.fill(LengthSize + n); err != nil {
		return nil, err
	}
	body := r.buf[r.at+LengthSize : r.at+LengthSize+n]
	r.at += LengthSize + n
	return body, nil
}

// Buffered reports whether Next would return without reading.
func (r *Reader) Buffered() bool {
	if r.fail != nil {
		return true
	}
	have := len(r.buf) - r.at
	if have < LengthSize {
		return false
	}
	n, err := r.length()
	return err != nil || have-LengthSize >= n
}

// length is that of the next frame, once its four bytes have arrived.
func (r *Reader) length() (int, error) {
	n := binary.BigEndian.Uint32(r.buf[r.at:])
	switch {
	case n == 0:
		return 0, Errorf(ErrMalformed, "frame of length 0")
	case int64(n) > int64(r.most):
		return 0, Errorf(ErrTooLarge, "frame of %d bytes, maximum %d", n, r.most)
	}
	return int(n), nil
}

const (
	readChunk = 16 << 10 // what is free for a read, at least, after growing
	readLeast = readChunk / 4
	maxEmpty  = 100 // reads in a row that bring nothing
)

// chunk is a buffer that readers lend each other: those that wait need none.
type chunk struct{ bytes []byte }

// chunks of one size, and of another for frames that do not fit.
var (
	chunks = sync.Pool{New: func() any { return &chunk{make([]byte, readChunk)} }}
	larger = sync.Pool{New: func() any { return &chunk{make([]byte, 3*readChunk)} }}
)

// fill reads until n bytes are unread in the buffer.
func (r *Reader) fill(n int) error {
	for empty := 0; len(r.buf)-r.at < n; {
		r.makeRoom(n)
		got, err := r.r.Read(r.buf[len(r.buf):cap(r.buf)])
		r.buf = r.buf[:len(r.buf)+got]
		switch {
		case len(r.buf)-r.at >= n:
			// An error will come again.
		case errors.Is(err, io.EOF) && len(r.buf) > r.at:
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		case got == 0:
			if empty++; empty == maxEmpty {
				return fmt.Errorf("read frame: %w", io.ErrNoProgress)
			}
		default:
			empty = 0
		}
	}
	return nil
}

// makeRoom makes the buffer fit for a read towards n unread bytes. It takes at
// most twice what has arrived and two chunks, whatever n is. Between two frames
// there is room for the next length alone, so that a reader may wait long.
func (r *Reader) makeRoom(n int) {
	have := len(r.buf) - r.at
	switch {
	case have == 0 && n == LengthSize:
		r.use(r.head[:0], nil)
		return
	case n == LengthSize && cap(r.buf) == LengthSize:
		return // the rest of the length
	case cap(r.buf)-len(r.buf) >= readLeast:
		return
	}
	want := readChunk + min(2*have, n)
	switch {
	case cap(r.buf) >= want:
		copy(r.buf, r.buf[r.at:])
		r.buf, r.at = r.buf[:have], 0
	case have+readLeast <= readChunk:
		r.lend(&chunks)
	case want <= 3*readChunk:
		r.lend(&larger)
	default:
		grown := make([]byte, have, want)
		copy(grown, r.buf[r.at:])
		r.use(grown, nil)
	}
}

// lend moves what is unread into a chunk.
func (r *Reader) lend(from *sync.Pool) {
	c := from.Get().(*chunk)
	r.use(c.bytes[:copy(c.bytes, r.buf[r.at:])], c)
}

// use gives back the buffer for another one.
func (r *Reader) use(buf []byte, c *chunk) {
	if was := r.lent; was != nil {
		if len(was.bytes) == readChunk {
			chunks.Put(was)
		} else {
			larger.Put(was)
		}
	}
	r.buf, r.at, r.lent = buf, 0, c
}
