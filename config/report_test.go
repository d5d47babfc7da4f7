package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReportsOfScriptsCount(t *testing.T) {
	for _, test := range []struct {
		payload string
		want    Report
	}{
		{`{"agent":"","applied_version":1700000000}`, Report{AppliedVersion: 1700000000, Version: 1700000000, State: StateApplied}},
		{`{"agent":7,"applied_version":"12"}`, Report{Agent: "7", AppliedVersion: 12, Version: 12, State: StateApplied}},
		{`{"applied_version":1.7e3}`, Report{AppliedVersion: 1700, Version: 1700, State: StateApplied}},
		{`{"agent":"a","agent":"b","applied_version":3,"Applied_Version":4,"digest":7}`, Report{Agent: "b", AppliedVersion: 3, Version: 3, State: StateApplied}},
		{`{"agent":{},"applied_version":3,"state":"later","version":5}`, Report{AppliedVersion: 3, Version: 5, State: StatePending}},
		{`{"applied_version":0,"state":"stale"}`, Report{State: StatePending}},
	} {
		got, err := ParseReport([]byte(test.payload))
		require.NoError(t, err, test.payload)
		require.Equal(t, &test.want, got, test.payload)
	}
	for payload, void := range map[string]Void{
		``: VoidMalformed, `null`: VoidMalformed, `[]`: VoidMalformed,
		`{}`: VoidVersion, `{"applied_version":null}`: VoidVersion, `{"applied_version":-1}`: VoidVersion,
		`{"applied_version":1.5}`: VoidVersion, `{"applied_version":"NaN"}`: VoidVersion, `{"applied_version":"v3"}`: VoidVersion,
		`{"applied_version":9007199254740992}`: VoidVersion,
	} {
		_, err := ParseReport([]byte(payload))
		require.ErrorIs(t, err, void, payload)
	}
}

func TestAReportReadsAsItWasWritten(t *testing.T) {
	r := &Report{
		Agent: "2147483649", AppliedVersion: 6, Digest: DigestOf([]byte("{}")),
		State: StateRejected, Version: 7, Error: "/a: required", Pinned: true, Held: true, Behind: true, Highest: 9,
		At: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), Every: time.Minute,
		Labels: map[string]string{"zone": "b", "a": "<1>"}, Void: 2, Instance: "00ff", Number: 12,
	}
	payload := r.Append(nil)
	require.Equal(t, `{"agent":"2147483649","applied_version":6,`, string(payload[:42]))
	got, err := ParseReport(payload)
	require.NoError(t, err)
	require.Equal(t, r, got)
}

func FuzzParseReport(f *testing.F) {
	for _, seed := range []string{
		`{"agent":"","applied_version":1}`,
		`{"agent":1,"applied_version":"7","state":"failed","version":8,"error":"x","every":60,"labels":{"a":"b"},"report":3}`,
		`{"applied_version":1e2,"at":"2026-01-02T03:04:05Z","digest":"sha256:00","pinned":true}`, `[`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		r, err := ParseReport(payload)
		if err != nil {
			require.NotZero(t, voidOf(err))
			return
		}
		again, err := ParseReport(r.Append(nil))
		require.NoError(t, err)
		if r.At.Equal(again.At) { // zones with seconds do not come back
			again.At = r.At
		}
		if r.Version == 0 {
			again.Version = 0 // it is not written then
		}
		if len(r.Labels) == 0 {
			again.Labels = r.Labels
		}
		require.Equal(t, r, again)
	})
}
