package integration_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/internal/admin"
	"github.com/pilotgo/pilotgo/internal/testenv"
)

// browser is a headless Chromium with one tab. It notes what the page asks for and
// complains about.
type browser struct {
	context.Context
	t *testing.T

	mu        sync.Mutex
	asked     []string
	complains []string
}

func openBrowser(t *testing.T) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	testenv.Need(t, "chromium", err == nil, "no chromium on the path")
	b := &browser{t: t}
	ctx, cancel := chromedp.NewContext(t.Context(), chromedp.WithAllocatorOptions(chromedp.ExecPath(path), chromedp.NoSandbox))
	t.Cleanup(cancel)
	require.NoError(t, chromedp.Listen(ctx, b.listen))
	b.Context, cancel = context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(cancel)
	command(b, network.Enable, network.EnableParams{})
	command(b, log.Enable, cdp.Empty{})
	b.do(chromedp.EmulateViewport(1200, 900))
	return b
}

func (b *browser) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.asked = append(b.asked, e.Request.URL)
	case *log.EventEntryAdded:
		b.complains = append(b.complains, e.Entry.Text)
	case *runtime.EventExceptionThrown:
		b.complains = append(b.complains, e.ExceptionDetails.Text)
	}
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Do(b, steps...))
}

// command sends one command of the protocol that browsers speak.
func command[P, R any](b *browser, c cdp.Command[P, R], params P) {
	b.t.Helper()
	_, err := chromedp.Call(b, c, params)
	require.NoError(b.t, err)
}

// eval is the value of a JavaScript expression.
func eval[T any](b *browser, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b, chromedp.Evaluate[T](expression))
	require.NoError(b.t, err)
	return v
}

// until waits for a JavaScript condition.
func (b *browser) until(condition string) {
	b.t.Helper()
	b.do(chromedp.Poll[chromedp.Void](condition))
}

// picture keeps what is to be seen, where PILOTGO_PICTURES names a folder.
func (b *browser) picture(name string) {
	b.t.Helper()
	folder := os.Getenv("PILOTGO_PICTURES")
	if folder == "" {
		return
	}
	png, err := chromedp.Run(b, chromedp.FullScreenshot(100))
	require.NoError(b.t, err)
	require.NoError(b.t, os.WriteFile(filepath.Join(folder, name+".png"), png, 0o644))
}

// quiet checks that the page asked nobody else and had nothing to complain about.
func (b *browser) quiet(server string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.NotEmpty(b.t, b.asked)
	for _, url := range b.asked {
		if !strings.HasPrefix(url, "data:") {
			assert.True(b.t, strings.HasPrefix(url, server+"/"), "the page asks for %s", url)
		}
	}
	assert.Empty(b.t, b.complains)
}

// operated is the page of a registry whose state the test sets.
type operated struct {
	*httptest.Server
	now atomic.Pointer[admin.Snapshot]
}

func operate(t *testing.T) *operated {
	t.Helper()
	o := new(operated)
	o.now.Store(swarm(42))
	s, err := admin.New(admin.Options{
		Snapshot: o.now.Load, Every: 50 * time.Millisecond,
		Metrics: http.NotFoundHandler(), Ready: func(context.Context) error { return nil },
	})
	require.NoError(t, err)
	o.Server = httptest.NewServer(s)
	t.Cleanup(o.Close)
	t.Cleanup(func() { s.Close() })
	return o
}

// swarm is a registry in use.
func swarm(term uint64) *admin.Snapshot {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := &admin.Snapshot{
		At: at,
		Registry: admin.Registry{
			Address: "127.0.0.1:9002", Fingerprint: "sha256:XOr7SkQ0YxJ3cV1b5yO4bLq3l6m8u0PZ2vB1n7QwK3s", Software: "pilotgo devel", Store: "disk",
			Epoch: "51c1fd5c0f0a9e31", Born: at, Started: at, Head: 81234, Nodes: 12, Online: 11, Sessions: 14, Readers: 40, Messages: 5210, Bytes: 3 << 20,
		},
		Groups: []admin.Group{
			{Name: "workers", Leader: "2881234567", LeaderName: "agent-7", Term: term, Since: at, Heard: 40 * time.Millisecond, Candidates: 4, History: []admin.Change{
				{At: at, What: "leader", Leader: "2881234566", Term: term - 1}, {At: at, What: "changed", Leader: "2881234567", Term: term, Reason: "resigned"},
			}},
			{Name: "backups", Reason: "silent", Candidates: 1},
		},
		Swarms: []admin.Swarm{
			{Name: "pool", Version: 1767323045, Published: at, Why: "more workers", Applied: 7, Pending: 1, Stale: 1, Rejected: 1, Failed: 1, Agents: []admin.Agent{
				{Node: "2881234567", Name: "agent-7", State: "applied", Version: 1767323045, Age: 3 * time.Second},
				{Node: "2881234568", Name: "agent-8", State: "failed", Version: 1767323001, Age: time.Minute, Error: "the health check: exit status 1"},
			}, More: 9},
		},
	}
	for i := range 8 {
		s.Topics = append(s.Topics, admin.Topic{Name: fmt.Sprintf("jobs.%d", i), Messages: 100, Bytes: 12345, Rate: 3.5})
		s.Nodes = append(s.Nodes, admin.Node{ID: fmt.Sprint(2881234560 + i), Name: fmt.Sprintf("agent-%d", i), Labels: []string{"gpu"}, Online: uint64(i % 2), Seen: at})
	}
	return s
}

func TestThePageNeedsNoScript(t *testing.T) {
	o, b := operate(t), openBrowser(t)
	command(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.do(chromedp.Navigate(o.URL + "/"))
	text, err := chromedp.Run(b, chromedp.Text(chromedp.CSS("body")))
	require.NoError(t, err)
	for _, want := range []string{"workers", "agent-7", "42", "none: silent", "64 % of 11", "jobs.3", "2881234561", "Again"} {
		assert.Contains(t, text, want)
	}
	b.quiet(o.URL)
}

func TestThePageFollowsTheRegistry(t *testing.T) {
	o, b := operate(t), openBrowser(t)
	b.do(chromedp.Navigate(o.URL + "/"))
	b.until(`document.querySelector("#live").textContent.startsWith("Live.")`)
	o.now.Store(swarm(43))
	b.until(`document.querySelector("#groups td.n").textContent === "43"`)

	b.do(chromedp.Click(chromedp.CSS("#live button")))
	o.now.Store(swarm(44))
	time.Sleep(300 * time.Millisecond) // events come meanwhile, and must not be shown
	require.Equal(t, "43", eval[string](b, `document.querySelector("#groups td.n").textContent`))
	b.do(chromedp.Click(chromedp.CSS("#live button")))
	b.until(`document.querySelector("#groups td.n").textContent === "44"`)
	b.quiet(o.URL)
}

func TestThePageIsUsableFromTheKeyboard(t *testing.T) {
	o, b := operate(t), openBrowser(t)
	b.do(chromedp.Navigate(o.URL + "/"))
	b.until(`document.querySelector("#live").textContent.startsWith("Live.")`)
	b.do(chromedp.KeyEvent(kb.Tab))
	require.Equal(t, "To the groups", eval[string](b, `document.activeElement.textContent`))
	b.picture("skip")
	b.do(chromedp.KeyEvent(kb.Enter))
	require.Equal(t, "#groups", eval[string](b, `location.hash`))

	// Each thing that can be used is reached, and shows that it has the focus.
	var stops []string
	for range 30 {
		b.do(chromedp.KeyEvent(kb.Tab))
		stop := eval[string](b, `(() => { const e = document.activeElement; return e.tagName === "SUMMARY" ? e.parentElement.id : e.textContent.slice(0, 20) })()`)
		if stop == "history-workers" {
			outline := eval[string](b, `getComputedStyle(document.activeElement).outlineStyle`)
			assert.Equal(t, "solid", outline)
			break
		}
		stops = append(stops, stop)
	}
	require.Equal(t, "SUMMARY", eval[string](b, `document.activeElement.tagName`), "reached: %q", stops)
	b.do(chromedp.KeyEvent(kb.Enter))
	b.until(`document.getElementById("history-workers").open`)

	// What is open stays open, and the focus stays, when the rows are new.
	o.now.Store(swarm(45))
	b.until(`document.querySelector("#groups td.n").textContent === "45"`)
	assert.True(t, eval[bool](b, `document.getElementById("history-workers").open`))
	assert.Equal(t, "history-workers", eval[string](b, `document.activeElement.parentElement.id`))
	b.quiet(o.URL)
}

// contrast is the lowest contrast of any text on the page with what is behind it,
// by the formula of WCAG 2.
const contrast = `(() => {
  const parse = (c) => c.match(/[\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const ground = light(parse(getComputedStyle(document.body).backgroundColor));
  let worst = 21;
  for (const e of document.querySelectorAll("body *")) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()) || e.tagName === "BUTTON") continue;
    const text = light(parse(getComputedStyle(e).color));
    worst = Math.min(worst, (Math.max(text, ground) + .05) / (Math.min(text, ground) + .05));
  }
  return worst;
})()`

func TestThePageIsReadableInLightAndDark(t *testing.T) {
	o, b := operate(t), openBrowser(t)
	grounds := map[string]string{}
	for _, scheme := range []string{"light", "dark"} {
		command(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		b.do(chromedp.Navigate(o.URL + "/"))
		b.until(`document.querySelector("#live").textContent.startsWith("Live.")`)
		b.do(chromedp.Evaluate[chromedp.Void](`document.querySelectorAll("details").forEach((d) => { d.open = true })`))
		grounds[scheme] = eval[string](b, `getComputedStyle(document.body).backgroundColor`)
		assert.GreaterOrEqual(t, eval[float64](b, contrast), 4.5, scheme)
		b.picture(scheme)
	}
	assert.NotEqual(t, grounds["light"], grounds["dark"])
}

func TestThePageFitsAPhone(t *testing.T) {
	o, b := operate(t), openBrowser(t)
	b.do(chromedp.EmulateViewport(360, 700), chromedp.Navigate(o.URL+"/"))
	assert.LessOrEqual(t, eval[float64](b, `document.documentElement.scrollWidth`), 360.0, "tables scroll by themselves")
	b.picture("phone")
}
