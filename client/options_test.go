package client

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/require"
)

func TestOptionsHaveDefaults(t *testing.T) {
	o, err := Options{}.validate()
	require.NoError(t, err)
	require.NotNil(t, o.Logger)
	o.Logger = nil
	require.Equal(t, Options{
		Window: 1024, Buffer: 256, BufferBytes: 1 << 20, KeepAlive: 5 * time.Second, Idle: 15 * time.Second,
	}, o)
}

func TestOptionsThatContradict(t *testing.T) {
	long := strings.Repeat("x", protocol.MaxName+1)
	key := fakeregistry.Key("a")
	for name, o := range map[string]Options{
		"key":            {Key: key[:31]},
		"no key":         {NoState: true},
		"home":           {NoState: true, Key: key, Home: "/"},
		"one shot":       {NoState: true, Key: key, OneShot: true},
		"name":           {Name: long},
		"control":        {Name: "a\nb"},
		"tag":            {Tags: []string{long}},
		"token":          {Token: strings.Repeat("x", protocol.MaxToken+1)},
		"damaged token":  {Token: protocol.JoinToken{}.String()[:80]},
		"token and key":  {Token: protocol.JoinToken{}.String(), RegistryKey: link.Fingerprint(make([]byte, 32))},
		"registry's key": {RegistryKey: "sha256:zz"},
		"window":         {Window: -1},
		"buffer":         {Buffer: -1},
		"buffer bytes":   {BufferBytes: -1},
		"keep alive":     {KeepAlive: -1},
		"idle":           {Idle: -1},
		"both":           {KeepAlive: time.Minute},
	} {
		_, err := newClient("127.0.0.1", o)
		require.Error(t, err, name)
		require.Contains(t, []protocol.Code{protocol.ErrInvalid, protocol.ErrTooLarge}, protocol.CodeOf(err), name)
	}
}

// A new option must be looked at here: has it a default, and what is it for?
func TestEveryOptionIsKnown(t *testing.T) {
	full := Options{
		Key: fakeregistry.Key("a"), Home: "h", NoState: true, Name: "n", Tags: []string{"t"}, Token: "k",
		RegistryKey: link.Fingerprint(make([]byte, 32)), Window: 1, Buffer: 1, BufferBytes: 1, KeepAlive: 1, Idle: 2, OneShot: true,
		PacketConn: &net.UDPConn{}, Logger: slog.Default(),
	}
	v := reflect.ValueOf(full)
	for i := range v.NumField() {
		require.False(t, v.Field(i).IsZero(), "%s is forgotten", v.Type().Field(i).Name)
	}
	full.NoState, full.OneShot = false, false
	got, err := full.validate()
	require.NoError(t, err)
	require.Equal(t, full, got, "what is set stays")
}

// The secret is told to no other registry.
func TestATokenPinsItsRegistry(t *testing.T) {
	key := make([]byte, 32)
	token := protocol.JoinToken{Registry: protocol.KeyHashOf(key)}.String()
	for _, given := range []string{"", link.Fingerprint(key)} {
		o, err := Options{Token: token, RegistryKey: given}.validate()
		require.NoError(t, err)
		require.Equal(t, link.Fingerprint(key), o.RegistryKey)
	}
	read, err := Options{Token: token + "\n"}.validate()
	require.NoError(t, err)
	require.Equal(t, token, read.Token)
	o, err := Options{Token: "of an operator's own making"}.validate()
	require.NoError(t, err)
	require.Empty(t, o.RegistryKey)
}

func TestStateIsUnderPilotHome(t *testing.T) {
	home := t.TempDir()
	t.Setenv("PILOT_HOME", home)
	dir, err := StateDir("")
	require.NoError(t, err)
	require.Equal(t, filepath.Join(home, ".pilot", "pilotgo"), dir)
	dir, err = StateDir("elsewhere")
	require.NoError(t, err)
	require.Equal(t, filepath.Join("elsewhere", ".pilot", "pilotgo"), dir)

	t.Setenv("PILOT_HOME", "")
	user, err := os.UserHomeDir()
	require.NoError(t, err)
	dir, err = StateDir("")
	require.NoError(t, err)
	require.Equal(t, filepath.Join(user, ".pilot", "pilotgo"), dir)
}

func TestIdentityIsMadeOnceAndFound(t *testing.T) {
	home := t.TempDir()
	first, err := newClient("127.0.0.1", Options{Home: home})
	require.NoError(t, err)
	second, err := newClient("127.0.0.1", Options{Home: home})
	require.NoError(t, err)
	require.Equal(t, first.self.Node, second.self.Node)
	require.NotEqual(t, first.self.Instance, second.self.Instance)
	require.FileExists(t, filepath.Join(home, ".pilot", "pilotgo", "identity.json"))

	known, err := KnownRegistries(home)
	require.NoError(t, err)
	require.Empty(t, known)
	ok, err := ForgetRegistry(home, "reg.example")
	require.NoError(t, err)
	require.False(t, ok)

	require.NoError(t, os.WriteFile(filepath.Join(home, ".pilot", "pilotgo", "registries.json"), []byte("{"), 0o600))
	_, err = KnownRegistries(home)
	require.ErrorIs(t, err, protocol.ErrInvalid)
}

func TestNoStateTouchesNoDisk(t *testing.T) {
	home := t.TempDir()
	t.Setenv("PILOT_HOME", home)
	_, err := newClient("127.0.0.1", Options{NoState: true, Key: fakeregistry.Key("a")})
	require.NoError(t, err)
	entries, err := os.ReadDir(home)
	require.NoError(t, err)
	require.Empty(t, entries)
}
