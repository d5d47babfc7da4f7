package config

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
)

// H14: what jq, float64 and maps of other programs do not survive.
const awkward = `{"B":1,"a":9007199254740993,"max":18446744073709551615,"x":1.0,"e":1e6,"é":"\u0000","B ":{}}`

func TestADocumentKeepsItsBytes(t *testing.T) {
	d, err := NewDocument(7, []byte("\n "+awkward+"\n"))
	require.NoError(t, err)
	require.Equal(t, awkward, string(d.Config))
	d.Reason, d.Who, d.RolledBackFrom, d.RolledBackTo = `<why> & "how"`, "ci", 6, 5
	d.Extra = []Field{{"ticket", json.RawMessage(`"A-1"`)}, {"n", json.RawMessage(`1.50`)}}

	payload := d.Append(nil)
	require.True(t, bytes.Contains(payload, []byte(`"config":`+awkward+`,`)))
	got, err := ParseDocument(payload)
	require.NoError(t, err)
	require.Equal(t, d, got)
}

func TestParseDocument(t *testing.T) {
	deep := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	for _, test := range []struct {
		payload string
		void    Void
		fault   string // part of it
	}{
		{payload: `{"type":"config_update","version":1,"config":{}}`},
		{payload: ` { "config" : {"a":1} , "version" : 9007199254740991 , "type" : "config_update" } `},
		{payload: `{"type":"config_stage","version":1,"config":{}}`},
		{payload: `{"\u0074ype":"config_update","version":1,"config":{}}`},
		{payload: ``, void: VoidMalformed},
		{payload: `[]`, void: VoidMalformed},
		{payload: `{"type":"config_update","version":1,"config":{}} x`, void: VoidMalformed},
		{payload: `{"type":"config_update","version":1,"config":{"a":NaN}}`, void: VoidMalformed},
		{payload: `{"type":"config_update","version":1,"config":{"a":01}}`, void: VoidMalformed},
		{payload: `{"type":"config_update","version":1,"version":1,"config":{}}`, void: VoidMalformed},
		{payload: `{"type":"config_update","version":1,"config":{},"config":{}}`, void: VoidMalformed},
		{payload: "{\"type\":\"config_update\",\"version\":1,\"config\":{\"a\":\"\xff\"}}", void: VoidMalformed},
		{payload: `{"type":"config_update","version":1,"config":{"a":"\ud800"}}`, void: VoidMalformed},
		{payload: `{"type":"config_update","version":1,"config":` + deep(MaxDepth) + `}`, void: VoidMalformed},
		{payload: `{"type":"config_update","version":1,"config":` + deep(MaxDepth-1) + `}`},
		{payload: `{"Type":"config_update","version":1,"config":{}}`, void: VoidType},
		{payload: `{"type":"rollout","version":1,"config":{}}`, void: VoidType},
		{payload: `{"type":7,"version":1,"config":{}}`, void: VoidType},
		{payload: `{"type":"config_update","Version":1,"config":{}}`, void: VoidVersion},
		{payload: `{"type":"config_update","version":"1","config":{}}`, void: VoidVersion},
		{payload: `{"type":"config_update","version":1.0,"config":{}}`, void: VoidVersion},
		{payload: `{"type":"config_update","version":1e3,"config":{}}`, void: VoidVersion},
		{payload: `{"type":"config_update","version":0,"config":{}}`, void: VoidVersion},
		{payload: `{"type":"config_update","version":-1,"config":{}}`, void: VoidVersion},
		{payload: `{"type":"config_update","version":9007199254740992,"config":{}}`, void: VoidVersion},
		{payload: `{"type":"config_update","version":1}`, void: VoidConfig},
		{payload: `{"type":"config_update","version":1,"Config":{}}`, void: VoidConfig},
		{payload: `{"type":"config_update","version":1,"config":null}`, fault: "not an object"},
		{payload: `{"type":"config_update","version":1,"config":[1]}`, fault: "not an object"},
		{payload: `{"type":"config_update","version":1,"config":""}`, fault: "not an object"},
		{payload: `{"type":"config_update","version":1,"config":{"a":{"b":1,"b":2}}}`, fault: `name "b" comes twice`},
		{payload: `{"type":"config_update","version":1,"config":{"a":1,"\u0061":2}}`, fault: `name "a" comes twice`},
		{payload: `{"type":"config_update","version":1,"config":{"a":1,"A":2}}`},
		{payload: `{"type":"config_update","version":1,"config":{},"digest":"sha256:00"}`, fault: "digest"},
	} {
		d, err := ParseDocument([]byte(test.payload))
		if test.void != 0 {
			require.ErrorIs(t, err, test.void, test.payload)
			continue
		}
		require.NoError(t, err, test.payload)
		require.NotZero(t, d.Version)
		if test.fault == "" {
			require.NoError(t, d.Fault(), test.payload)
			continue
		}
		require.ErrorContains(t, d.Fault(), test.fault, test.payload)
		require.ErrorIs(t, d.Fault(), protocol.ErrInvalid)
	}
}

func TestADocumentIsBounded(t *testing.T) {
	long := []byte(`{"a":"` + strings.Repeat("x", MaxDocument) + `"}`)
	_, err := NewDocument(1, long)
	require.ErrorIs(t, err, protocol.ErrTooLarge)
	d, err := ParseDocument((&Document{Version: 1, Config: long}).Append(nil))
	require.NoError(t, err)
	require.ErrorIs(t, d.Fault(), protocol.ErrTooLarge)
}

func TestManyNamesAreFoundTwice(t *testing.T) {
	var b strings.Builder
	for i := range 100 {
		b.WriteString(`"` + strings.Repeat("k", i+1) + `":1,`)
	}
	require.NoError(t, check([]byte("{"+b.String()+`"z":1}`)))
	require.ErrorContains(t, check([]byte("{"+b.String()+`"kkk":1}`)), "twice")
}

// A message that is stamped, but with another version, is void (H12).
func TestADocumentIsStampedWithItsVersion(t *testing.T) {
	m := &protocol.Message{
		Topic: "config:s", Seq: 4, Sender: 9, Time: 5, Payload: []byte(`{"type":"config_update","version":7,"config":{}}`),
		Fences: []protocol.Mark{{Topic: "election:g", Term: 7}, {Topic: "config:s", Term: 7}},
	}
	d, err := stamped(m, 3)
	require.NoError(t, err)
	require.Equal(t, []any{protocol.EpochID(3), protocol.Seq(4), protocol.NodeID(9)}, []any{d.Epoch, d.Seq, d.Sender})
	for _, marks := range [][]protocol.Mark{nil, {{Topic: "config:s", Term: 8}}, {{Topic: "election:g", Term: 7}}} {
		m.Fences = marks
		_, err := stamped(m, 3)
		require.ErrorIs(t, err, VoidUnstamped)
	}
}

func TestDigests(t *testing.T) {
	d := DigestOf([]byte("{}"))
	require.Equal(t, "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a", d.String())
	got, err := ParseDigest(d.String())
	require.NoError(t, err)
	require.Equal(t, d, got)
	require.Empty(t, Digest{}.String())
	for _, bad := range []string{"", "sha256:", d.String()[1:], d.String() + "0", d.String()[:70] + "g"} {
		_, err := ParseDigest(bad)
		require.ErrorIs(t, err, protocol.ErrInvalid)
	}
}

// The three claims: no crash, a typed error, and what is read reads the same when
// it is written again. What the scanner takes encoding/json takes too.
func FuzzParseDocument(f *testing.F) {
	for _, seed := range []string{
		`{"type":"config_update","version":1,"config":` + awkward + `}`,
		`{"type":"config_stage","version":2,"config":{"a":[1,-2.5e+7,true,false,null,"\ud83d\ude00"]},"x":{"y":1}}`,
		`{"type":"config_update","version":1,"config":{"a":{"b":1,"b":2}},"digest":"sha256:00","who":"me","reason":"r"}`,
		`{"version":"1"}`, `{`, "\x00",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		d, err := ParseDocument(payload)
		if err != nil {
			require.NotZero(t, voidOf(err))
			return
		}
		require.True(t, json.Valid(payload))
		require.True(t, bytes.Contains(payload, d.Config))
		again, err := ParseDocument(d.Append(nil))
		require.NoError(t, err)
		require.Equal(t, d.Config, again.Config)
		if d.fault == nil {
			require.Equal(t, d, again)
		}
	})
}
