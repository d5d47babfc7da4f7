package client

import (
	"testing"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/require"
)

func TestAddresses(t *testing.T) {
	for text, want := range map[string][]string{
		"reg.example":                  {"reg.example:9002"},
		"REG.example:1":                {"reg.example:1"},
		"quic://reg.example":           {"reg.example:9002"},
		"quic://127.0.0.1:9003":        {"127.0.0.1:9003"},
		"127.0.0.1":                    {"127.0.0.1:9002"},
		"[::1]:9003":                   {"[::1]:9003"},
		"[::1]":                        {"[::1]:9002"},
		"::1":                          {"[::1]:9002"},
		"fe80::1%eth0":                 {"[fe80::1%eth0]:9002"},
		"a:1, quic://b , [2001:db8::]": {"a:1", "b:9002", "[2001:db8::]:9002"},
	} {
		got, err := parseAddresses(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, want := range map[string]protocol.Code{
		"":                protocol.ErrInvalid,
		"a,":              protocol.ErrInvalid,
		":9002":           protocol.ErrInvalid,
		"a:0":             protocol.ErrInvalid,
		"a:65536":         protocol.ErrInvalid,
		"a:http":          protocol.ErrInvalid,
		"a:1:2":           protocol.ErrInvalid,
		"a/b":             protocol.ErrInvalid,
		"quic://":         protocol.ErrInvalid,
		"user@a":          protocol.ErrInvalid,
		"tls://a":         protocol.ErrUnsupported,
		"unix:///tmp/s":   protocol.ErrUnsupported,
		"a,pilot://b:1":   protocol.ErrUnsupported,
		"https://a:1/x/y": protocol.ErrUnsupported,
	} {
		_, err := parseAddresses(text)
		require.ErrorIs(t, err, want, text)
	}
}
