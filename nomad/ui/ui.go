package ui

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed site
var site embed.FS

// Paths of the site.
const (
	root   = "/ui/"
	assets = root + "assets/"
	// terminal is the page of a shell. The library that draws it makes style elements.
	terminal = root + "exec/"
)

// Config configures the page.
type Config struct {
	// Label is a text at the top of the page that names the cluster; empty shows none. The colours are CSS colours.
	Label           string
	LabelBackground string
	LabelText       string
	// Policy are the sources of the content security policy by directive, such as "connect-src"; they replace the defaults.
	Policy map[string][]string
}

// policy is the default content security policy.
var policy = map[string][]string{
	"default-src": {"'none'"}, "script-src": {"'self'"}, "style-src": {"'self'"}, "img-src": {"'self'", "data:"}, "connect-src": {"'self'"},
	"form-action": {"'none'"}, "frame-ancestors": {"'none'"}, "base-uri": {"'none'"},
}

// file is a file of the site, ready to send. zip compresses it at the first call: many agents never show the page.
type file struct {
	kind        string
	plain       []byte
	zip         func() []byte
	etag, cache string
}

// handler serves the site.
type handler struct {
	page    file
	files   map[string]file
	headers map[string]string
	// terminal and terminalPolicy are the page of a shell and its content security policy.
	terminal       file
	terminalPolicy string
}

// kinds are the content types by extension; other files are not served.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
}

// New returns the handler of all paths below /ui/, and of /ui itself.
func New(c Config) (http.Handler, error) {
	h := &handler{files: map[string]file{}, headers: map[string]string{
		"Content-Security-Policy": c.policy(""), "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
		"Referrer-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
	}, terminalPolicy: c.policy("'unsafe-inline'")}
	if _, own := c.Policy["frame-ancestors"]; own {
		delete(h.headers, "X-Frame-Options") // it knows no list of sites
	}
	version, err := hashOf(site)
	if err != nil {
		return nil, err
	}
	if h.page, err = render(c, version, false); err != nil {
		return nil, err
	}
	if h.terminal, err = render(c, version, true); err != nil {
		return nil, err
	}
	return h, fs.WalkDir(site, "site/assets", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || kinds[path.Ext(name)] == "" {
			return err
		}
		body, err := site.ReadFile(name)
		if err != nil {
			return err
		}
		h.files[assets+version+strings.TrimPrefix(name, "site/assets")] = ready(body, path.Ext(name), "public, max-age=31536000, immutable")
		return nil
	})
}

// policy is the content security policy, with a further source of styles.
func (c Config) policy(style string) string {
	var parts []string
	for directive, sources := range policy {
		if own, found := c.Policy[directive]; found {
			sources = own
		}
		if directive == "style-src" && style != "" && !slices.Contains(sources, style) {
			sources = append(slices.Clone(sources), style)
		}
		parts = append(parts, directive+" "+strings.Join(sources, " "))
	}
	slices.Sort(parts)
	return strings.Join(parts, "; ")
}

// render fills the configuration and the version of the site into the page.
func render(c Config, version string, terminal bool) (file, error) {
	t, err := template.ParseFS(site, "site/index.html")
	if err != nil {
		return file{}, err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, map[string]any{
		"Assets": assets + version, "Label": c.Label, "Background": c.LabelBackground, "Text": c.LabelText, "Terminal": terminal,
	}); err != nil {
		return file{}, err
	}
	return ready(b.Bytes(), ".html", "no-cache"), nil
}

// hashOf identifies the content of all files.
func hashOf(f fs.FS) (string, error) {
	sum := sha256.New()
	err := fs.WalkDir(f, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := fs.ReadFile(f, name)
		_, _ = sum.Write([]byte(name + "\x00" + strconv.Itoa(len(body)) + "\x00"))
		_, _ = sum.Write(body)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil)[:8]), err
}

// ready makes a file of the site.
func ready(body []byte, ext, cache string) file {
	sum := sha256.Sum256(body)
	return file{
		kind: kinds[ext], plain: body, zip: sync.OnceValue(func() []byte { return compress(body) }), etag: `"` + hex.EncodeToString(sum[:8]) + `"`, cache: cache,
	}
}

func compress(body []byte) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(body)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err) // the level is valid, and memory takes all
	}
	return b.Bytes()
}

// ServeHTTP implements [http.Handler].
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range h.headers {
		w.Header().Set(name, value)
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "Invalid method", http.StatusMethodNotAllowed)
		return
	}
	if r.URL.Path+"/" == root {
		to := root
		if r.URL.RawQuery != "" {
			to += "?" + r.URL.RawQuery
		}
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusTemporaryRedirect)
		return
	}
	f, found := h.files[r.URL.Path]
	switch {
	case found:
	case strings.HasPrefix(r.URL.Path, assets):
		http.Error(w, "no such file: load the page again", http.StatusNotFound)
		return
	default:
		f = h.page
		if strings.HasPrefix(r.URL.Path, terminal) {
			f = h.terminal
			w.Header().Set("Content-Security-Policy", h.terminalPolicy)
		}
	}
	f.send(w, r)
}

func (f file) send(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Type", f.kind)
	head.Set("Cache-Control", f.cache)
	head.Set("ETag", f.etag)
	head.Set("Vary", "Accept-Encoding")
	if r.Header.Get("If-None-Match") == f.etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := f.plain
	if acceptsGzip(r.Header.Get("Accept-Encoding")) {
		head.Set("Content-Encoding", "gzip")
		body = f.zip()
	}
	head.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}

// acceptsGzip reports whether an Accept-Encoding header permits gzip.
func acceptsGzip(header string) bool {
	for part := range strings.SplitSeq(header, ",") {
		name, weight, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			return !strings.HasPrefix(strings.ReplaceAll(weight, " ", ""), "q=0") || strings.ContainsAny(weight, "123456789")
		}
	}
	return false
}
