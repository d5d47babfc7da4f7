package protocol_test

import (
	"crypto/ed25519"
	"strings"
	"testing"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/require"
)

var joinToken = protocol.JoinToken{
	Registry: protocol.KeyHash(upTo(0, 32)), ID: tokenID, Secret: [16]byte(upTo(32, 48)),
}

// The text and the hash are on the wire and in logs: they never change.
const (
	joinTokenText = "pjt1_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh-hssPU5fYHCCAhIiMkJSYnKCkqKywtLi_vGlHl"
	joinTokenHash = "sha256:aq9gUr0RiczzTcrvbMzlLZXhN11BsOVnXyHmpbOmyNY"
)

func TestJoinTokenText(t *testing.T) {
	require.Equal(t, joinTokenText, joinToken.String())
	require.Equal(t, joinTokenHash, protocol.KeyHash(joinToken.Hash()).String())
	got, err := protocol.ParseJoinToken(joinTokenText)
	require.NoError(t, err)
	require.Equal(t, joinToken, got)
	require.True(t, protocol.IsJoinToken(joinTokenText))
	require.False(t, protocol.IsJoinToken("secret"))
	require.LessOrEqual(t, len(joinTokenText), protocol.MaxToken)
}

// A token is copied by hand: what gets lost is told, and the token is not.
func TestDamagedJoinTokens(t *testing.T) {
	for i := range joinTokenText {
		wrong := []byte(joinTokenText)
		wrong[i] ^= 1
		for _, text := range []string{string(wrong), joinTokenText[:i], joinTokenText[:i] + joinTokenText[i+1:]} {
			_, err := protocol.ParseJoinToken(text)
			require.ErrorIs(t, err, protocol.ErrInvalid, text)
			if len(text) > 10 {
				require.NotContains(t, err.Error(), text[8:])
			}
		}
	}
	for _, text := range []string{joinTokenText + "A", joinTokenText + "\n", joinTokenText[:9] + "\r" + joinTokenText[9:]} {
		_, err := protocol.ParseJoinToken(text)
		require.ErrorIs(t, err, protocol.ErrInvalid, "%q", text)
	}
}

func TestKeyHash(t *testing.T) {
	public := ed25519.PublicKey(upTo(0, 32))
	text := protocol.KeyHashOf(public).String()
	require.Equal(t, "sha256:Yw3NKWbEM2aRElRIu7JbT_QSpJxzLbLIq8G4WBvXEN0", text)
	got, err := protocol.ParseKeyHash(" " + text + "\n")
	require.NoError(t, err)
	require.Equal(t, protocol.KeyHashOf(public), got)
	for _, wrong := range []string{"", "sha256:", text[7:], text + "A", text[:len(text)-1], "md5:" + text[7:], text[:20] + "\n" + text[20:]} {
		_, err := protocol.ParseKeyHash(wrong)
		require.ErrorIs(t, err, protocol.ErrInvalid, wrong)
	}
}

func TestTokenID(t *testing.T) {
	got, err := protocol.ParseTokenID(tokenID.String())
	require.NoError(t, err)
	require.Equal(t, tokenID, got)
	for _, wrong := range []string{"", "a1", "xx" + tokenID.String()[2:], tokenID.String() + "00"} {
		_, err := protocol.ParseTokenID(wrong)
		require.ErrorIs(t, err, protocol.ErrInvalid, wrong)
	}
}

func TestLabels(t *testing.T) {
	for _, label := range []string{"a", "Ops-1_x.y", strings.Repeat("x", 64)} {
		require.NoError(t, protocol.ValidLabel(label))
	}
	for _, label := range []string{"", "a b", "a,b", "ü", "a:b", "#", strings.Repeat("x", 65)} {
		require.ErrorIs(t, protocol.ValidLabel(label), protocol.ErrInvalid, label)
	}
}

func TestStandingText(t *testing.T) {
	require.Equal(t, "none admitted revoked 3", strings.Join([]string{
		protocol.StandingNone.String(), protocol.StandingAdmitted.String(),
		protocol.StandingRevoked.String(), protocol.Standing(3).String(),
	}, " "))
}

// No text crashes it, and what is a token has one text.
func FuzzJoinToken(f *testing.F) {
	f.Add(joinTokenText)
	f.Add("pjt1_")
	f.Add("pjt1_" + strings.Repeat("A", 80))
	f.Add(joinTokenText[:9] + "\r" + joinTokenText[9:])
	f.Fuzz(func(t *testing.T, text string) {
		token, err := protocol.ParseJoinToken(text)
		if err != nil {
			require.ErrorIs(t, err, protocol.ErrInvalid)
			return
		}
		require.Equal(t, text, token.String())
	})
}
