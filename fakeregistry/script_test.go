package fakeregistry_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/require"
)

// TestScriptOfEverything runs the file that shows all faults, with a client that
// has to live through them.
func TestScriptOfEverything(t *testing.T) {
	text, err := os.ReadFile("testdata/faults.json")
	require.NoError(t, err)
	script, err := fakeregistry.ParseFaults(text)
	require.NoError(t, err)
	done := make(map[string]bool)
	for _, s := range script {
		done[s.Do] = true
	}
	for _, name := range fakeregistry.FaultNames() {
		require.True(t, done[name], "testdata/faults.json has no %s", name)
	}
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a := join(t, reg, "a")
		check := fakeregistry.NewChecker(t, reg)
		sub := subscribe(t, a, "*")
		go follow(t, check.Reader("a", "*"), sub)
		ctx, cancel := context.WithCancel(t.Context())
		published := make(chan int)
		go func() {
			n := 0
			for ctx.Err() == nil {
				if within(t, a, 100*time.Millisecond, "jobs", "x") == nil {
					n++
				}
				time.Sleep(100 * time.Millisecond)
			}
			published <- n
		}()
		start := time.Now()
		require.NoError(t, fakeregistry.RunScript(t.Context(), reg, script))
		require.GreaterOrEqual(t, time.Since(start), script[len(script)-1].At)
		time.Sleep(time.Minute)
		cancel()
		require.Positive(t, <-published)
		synctest.Wait()
		check.Settled()
	})
}

func TestTheDocumentationListsEveryFault(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	for _, name := range fakeregistry.FaultNames() {
		require.Regexp(t, `(?m)^//\t(.*, )?`+name+`\b`, string(doc))
	}
}

func TestScriptKeepsItsTimes(t *testing.T) {
	script, err := fakeregistry.ParseFaults([]byte(`[
		{"at": "1s", "do": "storage_full"},
		{"at": "2500ms", "do": "storage_full", "full": false}
	]`))
	require.NoError(t, err)
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a := join(t, reg, "a")
		publish(t, a, "x", "")
		done := make(chan error, 1)
		go func() { done <- fakeregistry.RunScript(t.Context(), reg, script) }()
		for _, want := range []protocol.Code{0, protocol.ErrStorageFull, protocol.ErrStorageFull, 0} {
			require.Equal(t, want, protocol.CodeOf(within(t, a, time.Second, "x", "")))
			time.Sleep(time.Second)
		}
		require.NoError(t, <-done)
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, fakeregistry.RunScript(ctx, reg, script), context.DeadlineExceeded)
	})
}

func TestScriptTellsWhichStepFailed(t *testing.T) {
	script, err := fakeregistry.ParseFaults([]byte(`[
		{"at": "1s", "do": "stop"},
		{"at": "2s", "do": "inject", "from": "z", "topic": "x", "payload": 1}
	]`))
	require.NoError(t, err)
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		err := fakeregistry.RunScript(t.Context(), reg, script)
		require.ErrorContains(t, err, "line 3: inject at 2s: inject: ")
	})
}

func TestScriptFaultsReachTheClient(t *testing.T) {
	for do, check := range map[string]func(t *testing.T, reg *fakeregistry.Registry, a *client.Client){
		`"partition", "node": "a"`: func(t *testing.T, reg *fakeregistry.Registry, a *client.Client) {
			require.ErrorIs(t, within(t, a, time.Second, "x", ""), context.DeadlineExceeded)
			require.Empty(t, reg.Messages("x"))
		},
		`"partition", "node": "a", "direction": "from"`: func(t *testing.T, reg *fakeregistry.Registry, a *client.Client) {
			require.ErrorIs(t, within(t, a, time.Second, "x", ""), context.DeadlineExceeded)
			require.Len(t, reg.Messages("x"), 1)
		},
		`"partition", "node": "a", "direction": "to"`: func(t *testing.T, reg *fakeregistry.Registry, a *client.Client) {
			require.ErrorIs(t, within(t, a, time.Second, "x", ""), context.DeadlineExceeded)
			require.Empty(t, reg.Messages("x"))
		},
		`"fail", "op": "publish", "topic": "x", "times": 1, "code": "rate_limited", "retry_after": "3s"`: func(t *testing.T, reg *fakeregistry.Registry, a *client.Client) {
			require.ErrorContains(t, within(t, a, time.Second, "x", ""), "retry in 3s")
			publish(t, a, "x", "")
		},
		`"drop_acks", "node": "a", "times": 1`: func(t *testing.T, reg *fakeregistry.Registry, a *client.Client) {
			require.ErrorIs(t, within(t, a, time.Second, "x", ""), context.DeadlineExceeded)
			publish(t, a, "x", "")
		},
		`"crash_at", "point": "after_store", "down": "1m"`: func(t *testing.T, reg *fakeregistry.Registry, a *client.Client) {
			start := time.Now()
			publish(t, a, "x", "")
			require.Greater(t, time.Since(start), time.Minute)
			require.Len(t, reg.Messages("x"), 1)
		},
		`"inject", "from": "z", "topic": "x", "payload": {"b": 1.0, "a": 9007199254740993}`: func(t *testing.T, reg *fakeregistry.Registry, a *client.Client) {
			require.Equal(t, []string{`{"b": 1.0, "a": 9007199254740993}`}, payloads(reg.Messages("x")))
		},
	} {
		t.Run(do, func(t *testing.T) {
			bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
				a := join(t, reg, "a")
				script, err := fakeregistry.ParseFaults([]byte(`[{"at": "0s", "do": ` + do + `}]`))
				require.NoError(t, err)
				require.NoError(t, script[0].Apply(reg))
				check(t, reg, a)
			})
		})
	}
}

func TestFaultyFaults(t *testing.T) {
	for text, want := range map[string]string{
		``:                             "line 1: the text ends too early",
		`{}`:                           "line 1: not a list",
		"[\n1]":                        "line 2: not an object",
		"[\n{}]":                       `line 2: "at": missing`,
		"[\n{\"at\":\n1}]":             `line 2: "at": 1 is no duration; write it like "1.5s"`,
		`[{"at":"soon"}]`:              `"at": "soon" is no duration`,
		`[{"at":"-1s"}]`:               `"at": below 0`,
		`[{"at":"1s"}]`:                `"do": missing`,
		`[{"at":"1s","do":""}]`:        `"do": empty`,
		`[{"at":"1s","do":"explode"}]`: `"do": no fault is called "explode"; there are clear, clock,`,
		"[{\"at\":\"2s\",\"do\":\"heal\"},\n{\"at\":\"1s\",\"do\":\"heal\"}]": `line 2: "at" lies before that of the fault above`,
		"[{\"at\":\"1s\",\"do\":\"partition\",\n\"nodes\":\"a\"}]":            `line 1: "node": missing`,
		"[{\"at\":\"1s\",\"do\":\"stop\",\n\"nodes\":\"a\"}]":                 `line 2: "nodes": stop has no such field; it has at, do`,
		`[{"at":"1s","do":"partition","node":"a","direction":"up"}]`:          `"direction": "up" is not both, to or from`,
		`[{"at":"1s","do":"mute","node":1}]`:                                  `"node": 1 is no text`,
		`[{"at":"1s","do":"mute","node":null}]`:                               `"node": null is no text`,
		`[{"at":"1s","do":"link","loss":2}]`:                                  `"loss": 2 is not between 0 and 1`,
		`[{"at":"1s","do":"link","bandwidth":-1}]`:                            `"bandwidth": -1 is out of range`,
		`[{"at":"1s","do":"link","bandwidth":1.5}]`:                           `"bandwidth": 1.5 is no whole number`,
		`[{"at":"1s","do":"fail"}]`:                                           `"op": missing`,
		`[{"at":"1s","do":"fail","op":"dance"}]`:                              `"op": "dance" is not one of connect, publish,`,
		`[{"at":"1s","do":"fail","op":"publish","code":"no"}]`:                `"code": no error is called "no"; there are internal,`,
		`[{"at":"1s","do":"refuse","times":0}]`:                               `"times": 0 is never`,
		`[{"at":"1s","do":"crash_at","point":"noon"}]`:                        `"point": "noon" is not one of before_store,`,
		`[{"at":"1s","do":"storage_full","full":"yes"}]`:                      `"full": "yes" is no true or false`,
		`[{"at":"1s","do":"inject","from":"z","topic":"x"}]`:                  `"payload": missing`,
		`[{"at":"1s","at":"2s"}]`:                                             `"at" is there twice`,
		"[\n{\"at\":\"1s\",\"do\":\"heal\"}\n] []":                            "line 3: something follows the list",
		"[{\"at\":\"1s\",\n\n\"do\":heal}]":                                   "line 2: invalid character",
		"[{\"at\":\"1s\"":                                                     "the text ends too early",
	} {
		_, err := fakeregistry.ParseFaults([]byte(text))
		require.ErrorContains(t, err, want, "%s", text)
		require.True(t, strings.HasPrefix(err.Error(), "faults: line "), "%v", err)
	}
}

func FuzzParseFaults(f *testing.F) {
	f.Add([]byte(`[{"at": "1s", "do": "link", "from": "a", "loss": 0.5}]`))
	f.Add([]byte(`[{"at":1}]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		script, err := fakeregistry.ParseFaults(b)
		if err == nil {
			for _, s := range script {
				require.NotEmpty(t, s.String())
			}
		}
	})
}
