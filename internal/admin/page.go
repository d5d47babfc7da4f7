package admin

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"strconv"
	"time"
)

//go:embed page.html page.css page.js
var assets embed.FS

// sections are the parts of the page that are sent anew when they change, by the
// names of their templates.
var sections = []string{"registry", "groups", "swarms", "topics", "nodes"}

// page renders snapshots. It is made once and may be used by many at a time.
type page struct {
	html    *template.Template
	css, js []byte
}

func newPage() (*page, error) {
	html, err := template.New("").Funcs(template.FuncMap{
		"age": age, "size": size, "rate": rate, "clock": clock, "bar": bar, "share": share,
	}).ParseFS(assets, "page.html")
	if err != nil {
		return nil, err
	}
	p := &page{html: html}
	if p.css, err = assets.ReadFile("page.css"); err != nil {
		return nil, err
	}
	p.js, err = assets.ReadFile("page.js")
	return p, err
}

func (p *page) whole(s *Snapshot) ([]byte, error) { return p.part("page", s) }

func (p *page) part(name string, s *Snapshot) ([]byte, error) {
	var b bytes.Buffer
	err := p.html.ExecuteTemplate(&b, name, s)
	return b.Bytes(), err
}

// age is a duration as people say it: its largest unit, or two of small numbers.
func age(d time.Duration) string {
	switch {
	case d < 0:
		return "–"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

func size(n uint64) string {
	const unit = 1024
	if n < unit {
		return strconv.FormatUint(n, 10) + " B"
	}
	x, i := float64(n)/unit, 0
	for x >= unit && i < 4 {
		x, i = x/unit, i+1
	}
	return fmt.Sprintf("%.1f %ciB", x, "KMGTP"[i])
}

func rate(r float64) string {
	switch {
	case r == 0:
		return "0"
	case r < 10:
		return strconv.FormatFloat(r, 'f', 1, 64)
	}
	return strconv.FormatFloat(r, 'f', 0, 64)
}

func clock(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.UTC().Format(time.RFC3339)
}

func share(s Swarm) string { return strconv.FormatFloat(s.Share(), 'f', 0, 64) + " %" }

// piece is a part of a compliance bar; positions are percent.
type piece struct {
	Class    string
	At, Long float64
}

// bar cuts a swarm's bar into its states. A policy against inline styles is why
// it is a drawing and not boxes with widths.
func bar(s Swarm) (list []piece) {
	at := 0.0
	for _, p := range []struct {
		class string
		n     int
	}{
		{"applied", s.Applied}, {"pending", s.Pending}, {"stale", s.Stale}, {"rejected", s.Rejected}, {"failed", s.Failed},
	} {
		if p.n == 0 {
			continue
		}
		long := 100 * float64(p.n) / float64(s.Known())
		list = append(list, piece{p.class, at, long})
		at += long
	}
	return list
}
