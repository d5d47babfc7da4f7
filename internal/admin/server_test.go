package admin_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/internal/admin"
	"github.com/pilotgo/pilotgo/protocol"
)

func sample() *admin.Snapshot {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return &admin.Snapshot{
		At:       at,
		Registry: admin.Registry{Address: "127.0.0.1:9002", Head: 77, Bytes: 3 << 20},
		Groups: []admin.Group{{
			Name: "workers", Leader: "2147483650", Term: 42, Since: at, Heard: 40 * time.Millisecond, Candidates: 3,
			History: []admin.Change{{At: at, What: "leader", Leader: "2147483650", Term: 42}},
		}, {Name: "idle", Reason: "silent"}},
		Swarms: []admin.Swarm{{
			Name: "pool", Version: 9, Applied: 3, Failed: 1,
			Agents: []admin.Agent{{Node: "2147483651", State: "failed", Version: 8, Age: time.Minute, Error: "<b>no</b> port"}},
		}},
		Topics: []admin.Topic{{Name: "jobs.<script>", Messages: 5, Bytes: 1024, Rate: 12.5}},
		Nodes:  []admin.Node{{ID: "2147483650", Name: "agent-7", Labels: []string{"gpu"}, Online: 1, Seen: at}},
	}
}

func serve(t *testing.T, o admin.Options) *admin.Server {
	t.Helper()
	if o.Snapshot == nil {
		o.Snapshot = sample
	}
	if o.Metrics == nil {
		o.Metrics = http.NotFoundHandler()
	}
	if o.Ready == nil {
		o.Ready = func(context.Context) error { return nil }
	}
	s, err := admin.New(o)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func get(h http.Handler, target string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", "http://127.0.0.1:9003"+target, nil)
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestThePageShowsAllAndEscapesWhatOthersWrote(t *testing.T) {
	w := get(serve(t, admin.Options{}), "/")
	require.Equal(t, http.StatusOK, w.Code)
	text := w.Body.String()
	for _, want := range []string{
		"workers", "2147483650", "40 ms", "none</span>: silent", "75 % of 4", "3.0 MiB", "12", "agent-7", "gpu",
		"&lt;b&gt;no&lt;/b&gt; port", "jobs.&lt;script&gt;",
	} {
		assert.Contains(t, text, want)
	}
	assert.NotContains(t, text, "<script>alert")
	assert.NotContains(t, text, "style=", "the policy forbids inline styles")
	assert.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'")
}

func TestAnEmptyRegistryHasAPageToo(t *testing.T) {
	w := get(serve(t, admin.Options{Snapshot: func() *admin.Snapshot { return &admin.Snapshot{} }}), "/")
	require.Equal(t, http.StatusOK, w.Code)
	assert.Contains(t, w.Body.String(), "No group has elected here yet.")
}

func TestWithoutATokenOnlyLoopbackNamesAreAnswered(t *testing.T) {
	s := serve(t, admin.Options{})
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	for _, name := range []string{"localhost:9003", "127.0.0.1:9003", "[::1]:9003", "127.0.0.1"} {
		assert.Equal(t, http.StatusOK, get(s, "/", host(name)).Code, name)
	}
	for _, name := range []string{"evil.example:9003", "127.0.0.1.evil.example", "192.0.2.1:9003", ""} {
		for _, path := range []string{"/", "/events", "/metrics", "/debug/pprof/", "/page.js"} {
			assert.Equal(t, http.StatusForbidden, get(s, path, host(name)).Code, "%s %s", name, path)
		}
	}
}

func TestATokenIsAskedForAndLeavesTheAddress(t *testing.T) {
	const token = "correct horse battery"
	s := serve(t, admin.Options{Token: token})
	bearer := func(text string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+text) }
	}
	for _, path := range []string{"/", "/events", "/metrics", "/page.css", "/debug/pprof/heap"} {
		assert.Equal(t, http.StatusUnauthorized, get(s, path).Code, path)
		assert.Equal(t, http.StatusUnauthorized, get(s, path, bearer("wrong")).Code, path)
	}
	assert.Equal(t, http.StatusOK, get(s, "/", bearer(token)).Code)
	assert.Equal(t, http.StatusOK, get(s, "/healthz").Code, "health needs no token")

	w := get(s, "/?token=correct+horse+battery")
	require.Equal(t, http.StatusSeeOther, w.Code)
	require.NotContains(t, w.Header().Get("Location"), "horse")
	cookies := w.Result().Cookies()
	require.Len(t, cookies, 1)
	assert.True(t, cookies[0].HttpOnly)
	assert.NotContains(t, cookies[0].Value, "horse")
	assert.Equal(t, http.StatusOK, get(s, "/", func(r *http.Request) { r.AddCookie(cookies[0]) }).Code)
	assert.Equal(t, http.StatusUnauthorized, get(s, "/?token=no").Code)
}

func TestReadyTellsWhyNot(t *testing.T) {
	s := serve(t, admin.Options{Ready: func(context.Context) error { return errors.New("the log is full") }})
	w := get(s, "/readyz")
	assert.Equal(t, http.StatusServiceUnavailable, w.Code)
	assert.Contains(t, w.Body.String(), "the log is full")
	assert.Equal(t, http.StatusOK, get(s, "/healthz").Code)

	// Who may not see the page learns the code and no more.
	full := fmt.Errorf("log /var/lib/secret: %w", protocol.ErrStorageFull)
	o := admin.Options{Ready: func(context.Context) error { return full }}
	other := func(r *http.Request) { r.Host = "registry.example" }
	assert.Equal(t, "not ready: storage_full\n", get(serve(t, o), "/readyz", other).Body.String())
	assert.Contains(t, get(serve(t, o), "/readyz").Body.String(), "/var/lib/secret")
	o.Token = "correct horse battery"
	assert.Equal(t, "not ready: storage_full\n", get(serve(t, o), "/readyz").Body.String())
	bearer := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+o.Token) }
	assert.Contains(t, get(serve(t, o), "/readyz", bearer).Body.String(), "/var/lib/secret")
	assert.Equal(t, "ready\n", get(serve(t, admin.Options{}), "/readyz").Body.String())
}

func TestOnlyReadingIsAnswered(t *testing.T) {
	s := serve(t, admin.Options{})
	for _, method := range []string{"POST", "PUT", "DELETE"} {
		r := httptest.NewRequest(method, "http://127.0.0.1/", strings.NewReader("x"))
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		assert.Equal(t, http.StatusMethodNotAllowed, w.Code, method)
	}
}

// listener is a browser that reads events through a pipe.
func listener(ctx context.Context, h http.Handler) (read func() string) {
	from, to := io.Pipe()
	w := &pipeWriter{header: http.Header{}, PipeWriter: to}
	r := httptest.NewRequest("GET", "http://127.0.0.1/events", nil).WithContext(ctx)
	go func() {
		h.ServeHTTP(w, r)
		to.Close()
	}()
	var all strings.Builder
	got := make(chan string)
	go func() {
		defer close(got)
		b := make([]byte, 1<<16)
		for {
			n, err := from.Read(b)
			if err != nil {
				return
			}
			got <- string(b[:n])
		}
	}()
	return func() string {
		synctest.Wait()
		all.Reset()
		for {
			select {
			case text, ok := <-got:
				if !ok {
					return all.String() + "END"
				}
				all.WriteString(text)
				synctest.Wait()
			default:
				return all.String()
			}
		}
	}
}

type pipeWriter struct {
	header http.Header
	*io.PipeWriter
}

func (w *pipeWriter) Header() http.Header { return w.header }
func (w *pipeWriter) WriteHeader(int)     {}
func (w *pipeWriter) Flush()              {}

func TestEventsCarryTheSectionsThatChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now atomic.Pointer[admin.Snapshot]
		now.Store(sample())
		s := serve(t, admin.Options{Snapshot: now.Load})
		ctx, cancel := context.WithCancel(t.Context())
		read := listener(ctx, s)
		first := read()
		for _, name := range []string{"registry", "groups", "swarms", "topics", "nodes"} {
			assert.Contains(t, first, "event: "+name+"\n")
		}
		time.Sleep(time.Second)
		require.Empty(t, read(), "nothing has changed")

		next := sample()
		next.Groups[0].Term = 43
		now.Store(next)
		time.Sleep(time.Second)
		text := read()
		assert.Contains(t, text, "43")
		assert.Equal(t, 1, strings.Count(text, "event: "))

		time.Sleep(time.Minute)
		assert.Contains(t, read(), ": still here")
		cancel()
		assert.Equal(t, "END", read())
	})
}

func TestCloseEndsTheStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, admin.Options{})
		read := listener(t.Context(), s)
		require.NotEmpty(t, read())
		require.NoError(t, s.Close())
		assert.Equal(t, "END", read())
		assert.Equal(t, http.StatusServiceUnavailable, get(s, "/events").Code)
	})
}

func TestManyStreamsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, admin.Options{})
		for range 100 {
			listener(t.Context(), s)()
		}
		w := get(s, "/events")
		assert.Equal(t, http.StatusServiceUnavailable, w.Code)
		assert.NotEmpty(t, w.Header().Get("Retry-After"))
		s.Close()
	})
}

func TestABackupNeedsTheTokenItself(t *testing.T) {
	const token = "correct horse battery"
	var made []string
	backup := func(folder string) error {
		made = append(made, folder)
		return nil
	}
	ask := func(s *admin.Server, body string, change ...func(*http.Request)) int {
		r := httptest.NewRequest("POST", "http://127.0.0.1/backup", strings.NewReader(body))
		for _, c := range change {
			c(r)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code
	}
	bearer := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
	guarded := serve(t, admin.Options{Token: token, Backup: backup})
	cookies := get(guarded, "/?token=correct+horse+battery").Result().Cookies()
	require.Len(t, cookies, 1)

	assert.Equal(t, http.StatusForbidden, ask(serve(t, admin.Options{Backup: backup}), `{"folder":"/b"}`, bearer), "no token is set")
	assert.Equal(t, http.StatusUnauthorized, ask(guarded, `{"folder":"/b"}`))
	assert.Equal(t, http.StatusForbidden, ask(guarded, `{"folder":"/b"}`, func(r *http.Request) { r.AddCookie(cookies[0]) }), "a cookie comes with what other pages ask")
	assert.Equal(t, http.StatusForbidden, ask(guarded, `{"folder":"/b"}`, func(r *http.Request) {
		r.AddCookie(cookies[0])
		r.Header.Set("Authorization", "Basic eDp5")
	}), "something is not the token")
	assert.Equal(t, http.StatusBadRequest, ask(guarded, `{"folder":"b"}`, bearer))
	assert.Equal(t, http.StatusBadRequest, ask(guarded, `{`, bearer))
	assert.Equal(t, http.StatusNotImplemented, ask(serve(t, admin.Options{Token: token}), `{"folder":"/b"}`, bearer))
	require.Empty(t, made)
	assert.Equal(t, http.StatusCreated, ask(guarded, `{"folder":"/b"}`, bearer))
	assert.Equal(t, []string{"/b"}, made)
}

// What a page of another site asks through a browser it cannot read, but it would
// take up streams and profiles. Old browsers and programs do not say.
func TestPagesOfOtherSitesAreNotAnswered(t *testing.T) {
	s := serve(t, admin.Options{})
	from := func(site, mode string) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", site)
			r.Header.Set("Sec-Fetch-Mode", mode)
		}
	}
	for _, site := range []string{"cross-site", "same-site"} {
		for _, path := range []string{"/", "/events", "/metrics", "/debug/pprof/trace"} {
			assert.Equal(t, http.StatusForbidden, get(s, path, from(site, "no-cors")).Code, "%s %s", site, path)
		}
		assert.Equal(t, http.StatusForbidden, get(s, "/debug/pprof/", from(site, "navigate")).Code)
		assert.Equal(t, http.StatusOK, get(s, "/", from(site, "navigate")).Code, "a link to the page")
		assert.Equal(t, http.StatusOK, get(s, "/healthz", from(site, "no-cors")).Code)
	}
	assert.Equal(t, http.StatusOK, get(s, "/page.js", from("same-origin", "no-cors")).Code)
	assert.Equal(t, http.StatusOK, get(s, "/", from("none", "navigate")).Code)
}

// pipes is a listener whose connections are in memory.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (pipes) Close() error   { return nil }
func (pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9003} }

// overPipes serves connections until the test ends.
func overPipes(t *testing.T, h http.Handler) (dial func() net.Conn) {
	t.Helper()
	l := make(pipes)
	s := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	ended := make(chan error)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		close(l)
		assert.ErrorIs(t, <-ended, net.ErrClosed)
		s.Close()
	})
	return func() net.Conn {
		ours, theirs := net.Pipe()
		l <- theirs
		t.Cleanup(func() { ours.Close() })
		return ours
	}
}

func TestWhoSendsNoBodyLosesTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := overPipes(t, serve(t, admin.Options{Token: "correct horse battery"}))()
		io.WriteString(c, "POST /backup HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
		began := time.Now()
		answer, err := io.ReadAll(c)
		require.NoError(t, err)
		assert.Contains(t, string(answer), " 401 ")
		assert.LessOrEqual(t, time.Since(began), 11*time.Second)
	})
}

func TestWhoTakesNoAnswerLosesTheConnection(t *testing.T) {
	for _, path := range []string{"/", "/events"} {
		t.Run(path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var term atomic.Uint64
				s := serve(t, admin.Options{Snapshot: func() *admin.Snapshot {
					now := sample()
					now.Groups[0].Term = term.Add(1)
					return now
				}})
				c := overPipes(t, s)()
				io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
				time.Sleep(31 * time.Second)
				synctest.Wait()
				_, err := io.ReadAll(c)
				require.NoError(t, err, "it has ended")
			})
		})
	}
}

// A stream ends only if what it brings is not taken.
func TestAStreamThatIsReadGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := overPipes(t, serve(t, admin.Options{}))()
		go io.WriteString(c, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
		lines := bufio.NewScanner(c)
		began, alive := time.Now(), 0
		for alive < 20 && lines.Scan() {
			if lines.Text() == ": still here" {
				alive++
			}
		}
		require.NoError(t, lines.Err())
		assert.Equal(t, 5*time.Minute, time.Since(began).Round(time.Second))
	})
}
