package protocol_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"runtime"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/require"
)

// framed puts a length before each body.
func framed(bodies ...[]byte) []byte {
	var b []byte
	for _, body := range bodies {
		b = binary.BigEndian.AppendUint32(b, uint32(len(body)))
		b = append(b, body...)
	}
	return b
}

func someBodies() [][]byte {
	var list [][]byte
	for _, n := range []int{1, 2, 100, 4095, 4096, 16<<10 - 4, 16 << 10, 3, 70_000, 1, 300_000, 5} {
		list = append(list, bytes.Repeat([]byte{byte(n)}, n))
	}
	return list
}

func TestReaderCutsAStream(t *testing.T) {
	bodies := someBodies()
	stream := framed(bodies...)
	for name, r := range map[string]io.Reader{
		"all at once":     bytes.NewReader(stream),
		"byte by byte":    iotest.OneByteReader(bytes.NewReader(stream)),
		"half of it":      iotest.HalfReader(bytes.NewReader(stream)),
		"end with data":   iotest.DataErrReader(bytes.NewReader(stream)),
		"chunks of 7,000": chunks(stream, 7000),
	} {
		got, err := readAll(r, 300_000)
		require.NoError(t, err, name)
		require.Equal(t, bodies, got, name)
	}
}

// chunks reads b in pieces of n bytes.
func chunks(b []byte, n int) io.Reader {
	var readers []io.Reader
	for c := range slices.Chunk(b, n) {
		readers = append(readers, bytes.NewReader(c))
	}
	return io.MultiReader(readers...)
}

func TestReaderTellsWhereTheStreamEnds(t *testing.T) {
	stream := framed([]byte("abc"), []byte("de"))
	for n := range len(stream) + 1 {
		got, err := readAll(iotest.OneByteReader(bytes.NewReader(stream[:n])), 10)
		switch n {
		case 0, 7, len(stream):
			require.NoError(t, err, "cut at %d", n)
		default:
			require.Equal(t, io.ErrUnexpectedEOF, err, "cut at %d", n)
		}
		want := 0
		if n >= 7 {
			want++
		}
		if n == len(stream) {
			want++
		}
		require.Len(t, got, want, "cut at %d", n)
	}
}

func TestReaderRefusesLengths(t *testing.T) {
	for _, test := range []struct {
		length uint32
		want   protocol.Code
	}{
		{0, protocol.ErrMalformed},
		{11, protocol.ErrTooLarge},
		{1<<31 - 1, protocol.ErrTooLarge},
		{1 << 31, protocol.ErrTooLarge},
		{1<<32 - 1, protocol.ErrTooLarge},
	} {
		r := protocol.NewReader(bytes.NewReader(binary.BigEndian.AppendUint32(nil, test.length)), 10)
		_, err := r.Next()
		require.ErrorIs(t, err, test.want)
		require.True(t, r.Buffered())
		_, again := r.Next()
		require.Equal(t, err, again, "the error is final")
	}
}

func TestReaderMaximumChanges(t *testing.T) {
	r := protocol.NewReader(bytes.NewReader(framed([]byte("abc"), []byte("abcdef"))), 3)
	_, err := r.Next()
	require.NoError(t, err)
	r.SetMax(6)
	body, err := r.Next()
	require.NoError(t, err)
	require.Equal(t, "abcdef", string(body))
}

func TestReaderBuffered(t *testing.T) {
	stream := framed([]byte("abc"), []byte("de"), []byte("f"))
	r := protocol.NewReader(chunks(stream, 14), 10) // two frames and a byte, then the rest
	for _, buffered := range []bool{false, true, false, false} {
		require.Equal(t, buffered, r.Buffered())
		_, err := r.Next()
		if err == io.EOF { //nolint:errorlint // a clean end is io.EOF itself
			return
		}
		require.NoError(t, err)
	}
}

// A deadline that passes in the middle of a frame loses nothing.
func TestReaderGoesOnAfterAnError(t *testing.T) {
	stream := framed([]byte("abcdef"))
	for n := range stream {
		r := protocol.NewReader(io.MultiReader(
			bytes.NewReader(stream[:n]),
			onlyOnce(os.ErrDeadlineExceeded),
			bytes.NewReader(stream[n:]),
		), 10)
		_, err := r.Next()
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		body, err := r.Next()
		require.NoError(t, err)
		require.Equal(t, "abcdef", string(body))
		_, err = r.Next()
		require.Equal(t, io.EOF, err)
	}
}

// onlyOnce is a reader that fails, and is at its end after that.
func onlyOnce(err error) io.Reader {
	return readerFunc(func([]byte) (int, error) {
		defer func() { err = io.EOF }()
		return 0, err
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

func TestReaderDoesNotSpin(t *testing.T) {
	calls := 0
	r := protocol.NewReader(readerFunc(func([]byte) (int, error) { calls++; return 0, nil }), 10)
	_, err := r.Next()
	require.ErrorIs(t, err, io.ErrNoProgress)
	require.LessOrEqual(t, calls, 100)
}

func TestReaderTakesMemoryOnlyForWhatArrives(t *testing.T) {
	const announced = protocol.MaxPayload + protocol.FrameOverhead
	for _, arrives := range []int{0, 1, 1000, 100_000, 1 << 20} {
		stream := append(binary.BigEndian.AppendUint32(nil, announced), make([]byte, arrives)...)
		source := bytes.NewReader(stream)
		used := allocated(func() {
			_, err := protocol.NewReader(source, announced).Next()
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Error(err)
			}
		})
		// The buffer doubles: with all that was given up it is at most four times.
		require.LessOrEqual(t, used, uint64(4*arrives+64<<10), "%d bytes arrived", arrives)
	}
}

func TestReaderGivesALargeBufferBack(t *testing.T) {
	large := bytes.Repeat([]byte{1}, 4<<20)
	in, out := io.Pipe()
	r := protocol.NewReader(in, len(large))
	go out.Write(framed(large))
	_, err := r.Next()
	require.NoError(t, err)
	before := heap()
	go out.Write(framed([]byte{1}))
	_, err = r.Next()
	require.NoError(t, err)
	require.Less(t, heap()+2<<20, before)
	require.NoError(t, out.Close())
	_, err = r.Next()
	require.Equal(t, io.EOF, err)
	runtime.KeepAlive(r)
	runtime.KeepAlive(large)
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// allocated is how many bytes f allocates, garbage included.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestAppendFrame(t *testing.T) {
	f := &protocol.Done{ID: 7}
	b := protocol.AppendFrame([]byte("before"), f)
	require.Equal(t, "before\x00\x00\x00\x03\x92\x05\x07", string(b))
}

// FuzzReader cuts a stream into frames however its bytes arrive.
func FuzzReader(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(framed(v.bytes, v.bytes), uint16(5))
		f.Add(v.bytes, uint16(1))
	}
	const most = 512
	f.Fuzz(func(t *testing.T, stream []byte, chunk uint16) {
		got, err := readAll(chunks(stream, 1+int(chunk)), most)
		want, wantErr := cut(stream, most)
		require.Equal(t, wantErr, verdict(err))
		require.Equal(t, want, got)
	})
}

// cut is Reader in a few lines, for a stream that is all there.
func cut(b []byte, most uint32) (frames [][]byte, err error) {
	for len(b) > 0 {
		if len(b) < 4 {
			return frames, io.ErrUnexpectedEOF
		}
		n := binary.BigEndian.Uint32(b)
		switch {
		case n == 0:
			return frames, protocol.ErrMalformed
		case n > most:
			return frames, protocol.ErrTooLarge
		case len(b)-4 < int(n):
			return frames, io.ErrUnexpectedEOF
		}
		frames = append(frames, b[4:4+n])
		b = b[4+n:]
	}
	return frames, nil
}

func verdict(err error) error {
	if code := protocol.CodeOf(err); code == protocol.ErrMalformed || code == protocol.ErrTooLarge {
		return code
	}
	return err
}
