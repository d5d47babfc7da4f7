package admin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"path/filepath"
	"strings"
	"time"
)

// Options of a Server.
type Options struct {
	// Snapshot is what the page shows, at most every Every, 1 s by default. The
	// snapshot is not changed afterwards.
	Snapshot func() *Snapshot
	Every    time.Duration

	// Metrics answers /metrics.
	Metrics http.Handler

	// Ready tells why the registry can not serve at the moment. It is given 2 s.
	// Who may not see the rest is told the code alone.
	Ready func(context.Context) error

	// Backup writes a copy of the log into a folder that is not there yet; nil
	// where that cannot be done. It is done only for who has the token.
	Backup func(folder string) error

	// Token, if not empty, must come with each request but those for health: as
	// a bearer token, or once as ?token= in a browser, which gets a cookie for it.
	// Without it only requests for this machine's own names are answered, so that
	// no web page elsewhere can read here through a browser.
	Token string
}

// Server answers the operators' HTTP requests.
type Server struct {
	o    Options
	page *page
	hub  *hub
	mux  *http.ServeMux
}

// New makes a server; Close ends it.
func New(o Options) (*Server, error) {
	if o.Every <= 0 {
		o.Every = time.Second
	}
	p, err := newPage()
	if err != nil {
		return nil, err
	}
	s := &Server{o: o, page: p, hub: newHub(p, o.Snapshot, o.Every), mux: http.NewServeMux()}
	s.routes()
	return s, nil
}

// Close ends all event streams and waits until nothing of the server runs but
// requests, which are the http.Server's to end.
func (s *Server) Close() error {
	s.hub.close()
	return nil
}

func (s *Server) routes() {
	s.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	s.mux.HandleFunc("GET /readyz", s.ready)
	s.guarded("GET /metrics", s.o.Metrics.ServeHTTP)
	s.guarded("GET /{$}", s.home)
	s.guarded("GET /page.css", asset("text/css; charset=utf-8", s.page.css))
	s.guarded("GET /page.js", asset("text/javascript; charset=utf-8", s.page.js))
	s.guarded("GET /events", s.hub.ServeHTTP)
	s.guarded("GET /debug/pprof/", unhurried(pprof.Index))
	s.guarded("GET /debug/pprof/cmdline", pprof.Cmdline)
	s.guarded("GET /debug/pprof/profile", unhurried(pprof.Profile))
	s.guarded("GET /debug/pprof/symbol", pprof.Symbol)
	s.guarded("GET /debug/pprof/trace", unhurried(pprof.Trace))
	s.guarded("POST /backup", unhurried(s.backup))
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	hurry(w, r)
	s.mux.ServeHTTP(w, r)
}

// How long a client may take to send a request's body, and to take an answer.
// Without bounds a few that do neither have all connections for ever.
const (
	bodyPatience   = 10 * time.Second
	answerPatience = 30 * time.Second
)

func hurry(w http.ResponseWriter, r *http.Request) {
	limits := http.NewResponseController(w)
	// They fail for a recorder in a test, which has no deadlines.
	_ = limits.SetWriteDeadline(time.Now().Add(answerPatience))
	if r.ContentLength != 0 {
		_ = limits.SetReadDeadline(time.Now().Add(bodyPatience))
	}
}

// unhurried lets an answer take as long as it takes.
func unhurried(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
		h(w, r)
	}
}

func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	if err := s.o.Ready(ctx); err != nil {
		why := "not ready: " + codeName(err)
		if s.admits(r) {
			why = err.Error()
		}
		http.Error(w, why, http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ready")
}

// backup is for programs that show the token, and never for a browser's cookie,
// which another page could make it send.
func (s *Server) backup(w http.ResponseWriter, r *http.Request) {
	var ask struct{ Folder string }
	switch err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&ask); {
	case s.o.Token == "" || !s.shows(r):
		http.Error(w, "backups are made for who shows the token: serve with one", http.StatusForbidden)
	case s.o.Backup == nil:
		http.Error(w, "this store makes no backups of its own: back up what is behind it", http.StatusNotImplemented)
	case err != nil || !filepath.IsAbs(ask.Folder):
		http.Error(w, "name the folder by its absolute path", http.StatusBadRequest)
	default:
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // which was for the body
		if err := s.o.Backup(ask.Folder); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
	}
}

func (s *Server) home(w http.ResponseWriter, _ *http.Request) {
	b, err := s.page.whole(s.o.Snapshot())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Write(b)
}

func asset(kind string, b []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.Write(b)
	}
}

const cookie = "pilotgo_admin"

// guarded answers those who may ask.
func (s *Server) guarded(pattern string, h http.HandlerFunc) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case s.admits(r):
			h(w, r)
		case s.o.Token == "" && !ownName(r.Host):
			http.Error(w, "without a token only requests for a loopback name are answered", http.StatusForbidden)
		case fromElsewhere(r):
			http.Error(w, "pages of other sites are not answered", http.StatusForbidden)
		case same(r.URL.Query().Get("token"), s.o.Token) && r.URL.Path == "/":
			http.SetCookie(w, &http.Cookie{Name: cookie, Value: proof(s.o.Token), Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
			http.Redirect(w, r, ".", http.StatusSeeOther) // the token does not stay in the address
		default:
			w.Header().Set("WWW-Authenticate", `Bearer realm="pilotgo"`)
			http.Error(w, "a token is needed: Authorization: Bearer TOKEN, or /?token=TOKEN in a browser", http.StatusUnauthorized)
		}
	})
}

// admits reports whether a request may see what is not for everybody.
func (s *Server) admits(r *http.Request) bool {
	if fromElsewhere(r) {
		return false
	}
	if s.o.Token == "" {
		return ownName(r.Host)
	}
	return s.knows(r)
}

// knows reports whether a request comes from who has the token, or had it once.
func (s *Server) knows(r *http.Request) bool {
	if s.shows(r) {
		return true
	}
	c, err := r.Cookie(cookie)
	return err == nil && same(c.Value, proof(s.o.Token))
}

// shows reports whether a request has the token itself.
func (s *Server) shows(r *http.Request) bool {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && same(token, s.o.Token)
}

// fromElsewhere reports whether a page of another site made a browser ask. It
// could not read the answer, but take up places for streams and profiles. That
// somebody follows a link to the page is no harm.
func fromElsewhere(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return false
	}
	return r.URL.Path != "/" || r.Header.Get("Sec-Fetch-Mode") != "navigate"
}

// proof is what a cookie has in place of the token itself.
func proof(token string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte("pilotgo admin "+token)))
}

func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// ownName reports whether a request's host is a name of this machine that no
// other can point elsewhere.
func ownName(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	if name == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(name, "[]"))
	return err == nil && ip.IsLoopback()
}
