package cli

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHostAddress(t *testing.T) {
	for in, want := range map[string]string{
		"registry.example.com":        "registry.example.com:9002",
		"Registry.Example.Com.":       "registry.example.com:9002",
		"registry-hostname":           "registry-hostname:9002",
		"registry.example.com:9100":   "registry.example.com:9100",
		"quic://registry.example.com": "registry.example.com:9002",
		"quic://10.0.0.7:9100/":       "10.0.0.7:9100",
		"10.0.0.7":                    "10.0.0.7:9002",
		"::1":                         "[::1]:9002",
		"[::1]":                       "[::1]:9002",
		"[::1]:9100":                  "[::1]:9100",
		"[FD00::7]:9100":              "[fd00::7]:9100",
		"localhost":                   "127.0.0.1:9002",
		"localhost:1":                 "127.0.0.1:1",
	} {
		got, err := hostAddress(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
	for _, in := range []string{
		"", ":9002", "a:", "a:0", "a:65536", "a:b", "a:1:2", "1", "4294967295", "a b", "a/b", "a@b", "-a", ".a",
		"[::1", "0:0000.0000.0001", "http://a", "a\x00b", "*",
	} {
		_, err := hostAddress(in)
		require.Error(t, err, in)
		require.Equal(t, codeUsage, describe(err).code, in)
		require.NotEmpty(t, describe(err).hint, in)
	}
	for _, in := range []string{"tls://a", "unix:///run/x", "pilot://a:1"} {
		_, err := hostAddress(in)
		require.ErrorIs(t, err, errors.ErrUnsupported, in)
		require.Equal(t, "not_supported", describe(err).code, in)
	}
}

func TestAliasesOfTheEnvironmentGoFirst(t *testing.T) {
	a := testApp(t)
	require.NoError(t, a.set(settings{"hosts": "one=10.0.0.1, two=10.0.0.2:9100", "registry": "two"}))
	t.Setenv("PILOTGO_HOSTS", "One=quic://10.0.0.9,three=[::1]:1")
	t.Setenv("PILOTGO_REGISTRY", "")
	n, err := a.hosts()
	require.NoError(t, err)
	for word, want := range map[string]string{
		"one": "10.0.0.9:9002", "ONE": "10.0.0.9:9002", "two": "10.0.0.2:9100", "three": "[::1]:1", "four": "four:9002",
		"one, 10.0.0.3,four": "10.0.0.9:9002,10.0.0.3:9002,four:9002",
	} {
		h, err := n.resolve(word)
		require.NoError(t, err)
		require.Equal(t, want, h.addr)
	}
	_, err = n.resolve("one,")
	require.Equal(t, codeUsage, describe(err).code)
	h, err := n.fallback()
	require.NoError(t, err)
	require.Equal(t, "10.0.0.2:9100", h.addr)

	t.Setenv("PILOTGO_REGISTRY", "one, 10.0.0.3")
	n, err = a.hosts()
	require.NoError(t, err)
	h, err = n.fallback()
	require.NoError(t, err)
	require.Equal(t, "10.0.0.9:9002,10.0.0.3:9002", h.addr)

	for _, bad := range []string{"x", "=a", "x="} {
		t.Setenv("PILOTGO_HOSTS", bad)
		_, err = a.hosts()
		require.Error(t, err, bad)
	}
}

// testApp is an app with a home of its own.
func testApp(t *testing.T) *app {
	t.Helper()
	t.Setenv("PILOT_HOME", t.TempDir())
	a, err := newApp(nil, nil, nil)
	require.NoError(t, err)
	return a
}
