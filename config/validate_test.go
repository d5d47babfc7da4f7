package config_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/config"
	"github.com/pilotgo/pilotgo/protocol"
)

// document makes a valid document.
func document(t testing.TB, version uint64, text string) *config.Document {
	t.Helper()
	d, err := config.NewDocument(version, []byte(text))
	require.NoError(t, err)
	return d
}

func TestRequirePaths(t *testing.T) {
	const text = `{"a":{"b/c":[1,{"~":null}]},"":0}`
	for _, test := range []struct{ path, want string }{
		{"", ""},
		{"/a", ""},
		{"/a/b~1c/0", ""},
		{"/a/b~1c/1/~0", ""}, // null is a value
		{"/", ""},
		{"/b", "/b: required: nothing there"},
		{"/a/b~1c/2", "/a/b~1c/2: required: nothing there; /a/b~1c is the last that is"},
		{"/a/b~1c/01", "/a/b~1c/01: required: nothing there; /a/b~1c is the last that is"},
		{"/a/b~1c/-", "/a/b~1c/-: required: nothing there; /a/b~1c is the last that is"},
		{"/a/b~1c/0/x", "/a/b~1c/0/x: required: nothing there; /a/b~1c/0 is the last that is"},
	} {
		v, err := config.RequirePaths("", test.path)
		require.NoError(t, err, test.path)
		err = v.Validate(t.Context(), document(t, 1, text))
		if test.want == "" {
			require.NoError(t, err, test.path)
			continue
		}
		require.EqualError(t, err, test.want)
		require.ErrorIs(t, err, protocol.ErrInvalid)
		var invalid *config.InvalidError
		require.ErrorAs(t, err, &invalid)
		require.Equal(t, test.path, invalid.Path)
	}
}

func TestRequirePathsNeedsPointers(t *testing.T) {
	for _, bad := range []string{"a", "$.a", "/a~", "/~2", "/a~~0"} {
		_, err := config.RequirePaths(bad)
		require.ErrorIs(t, err, protocol.ErrInvalid, bad)
	}
}

func TestAllStopsAtTheFirstRefusal(t *testing.T) {
	var asked []string
	says := func(name string, err error) config.Validator {
		return config.ValidatorFunc(func(context.Context, *config.Document) error {
			asked = append(asked, name)
			return err
		})
	}
	no := errors.New("no")
	err := config.All(says("a", nil), nil, says("b", no), says("c", nil)).Validate(t.Context(), document(t, 1, `{}`))
	require.Equal(t, no, err)
	require.Equal(t, []string{"a", "b"}, asked)

	require.NoError(t, config.All().Validate(t.Context(), document(t, 1, `{}`)))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, config.All(says("a", nil)).Validate(ended, document(t, 1, `{}`)), context.Canceled)
}

// A function that hangs, and does not look at its context, holds up nobody.
func TestWithinBoundsAHangingValidator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		hangs := config.ValidatorFunc(func(context.Context, *config.Document) error {
			<-release
			return nil
		})
		begun := time.Now()
		err := config.Within(3*time.Second, hangs).Validate(t.Context(), document(t, 1, `{}`))
		require.EqualError(t, err, "document: time-out: timeout: no answer within 3s")
		require.ErrorIs(t, err, protocol.ErrInvalid)
		require.ErrorIs(t, err, protocol.ErrTimeout)
		require.Equal(t, 3*time.Second, time.Since(begun))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = config.Within(3*time.Second, hangs).Validate(ctx, document(t, 1, `{}`))
		require.Equal(t, context.DeadlineExceeded, err)
		require.Equal(t, 4*time.Second, time.Since(begun))
	})
}

// A panic refuses the document, and ends no process.
func TestAPanicOfAValidatorRefuses(t *testing.T) {
	panics := config.ValidatorFunc(func(context.Context, *config.Document) error { panic("no such thing") })
	for _, v := range []config.Validator{config.All(panics), config.All(config.Within(time.Minute, panics))} {
		err := v.Validate(t.Context(), document(t, 1, `{}`))
		require.EqualError(t, err, "document: panic: panic: no such thing")
		require.ErrorIs(t, err, protocol.ErrInvalid)
	}
}
