package ui_test

import (
	"compress/gzip"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/ui"
)

// firstPageBytes is the most that a browser loads for the list of jobs, compressed.
const firstPageBytes = 60 << 10

func serve(t *testing.T, c ui.Config) http.Handler {
	t.Helper()
	h, err := ui.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func load(h http.Handler, method, target string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

var assetsOf = regexp.MustCompile(`/ui/assets/[0-9a-f]+`)

func TestPageIsServedForEachAddressOfTheSite(t *testing.T) {
	t.Parallel()
	h := serve(t, ui.Config{})
	for _, target := range []string{"/ui/", "/ui/jobs", "/ui/jobs/a%2Fb@default/versions", "/ui/storage/volumes/csi/x@y", "/ui/unknown.js"} {
		w := load(h, "GET", target)
		if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") || w.Header().Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: %d %v", target, w.Code, w.Header())
		}
		if again := load(h, "GET", target, "If-None-Match", w.Header().Get("ETag")); again.Code != http.StatusNotModified || again.Body.Len() != 0 {
			t.Errorf("%s again: %d with %d bytes", target, again.Code, again.Body.Len())
		}
	}
	if w := load(h, "GET", "/ui?a=b"); w.Code != http.StatusTemporaryRedirect || w.Header().Get("Location") != "/ui/?a=b" {
		t.Errorf("/ui: %d to %q", w.Code, w.Header().Get("Location"))
	}
	if w := load(h, "GET", "/ui/assets/0000/main.js"); w.Code != http.StatusNotFound {
		t.Errorf("a file of another version: %d, want 404", w.Code)
	}
	for _, method := range []string{"PUT", "POST", "DELETE"} {
		if w := load(h, method, "/ui/jobs"); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") == "" {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
	if w := load(h, "HEAD", "/ui/"); w.Code != 200 || w.Body.Len() != 0 {
		t.Errorf("HEAD: %d with %d bytes", w.Code, w.Body.Len())
	}
}

// The policy permits no script and no style but files of the site, so the markup has none, and no file builds markup from text.
func TestMarkupHasNoScriptsStylesOrHandlers(t *testing.T) {
	t.Parallel()
	markup := regexp.MustCompile(`(?i)<script[^>]*>[^<]|<style|\sstyle=|\son[a-z]+=|javascript:`)
	if body := load(serve(t, ui.Config{}), "GET", "/ui/").Body.String(); markup.MatchString(body) {
		t.Errorf("the page has %q", markup.FindString(body))
	}
	source := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|https?://[a-z]`)
	err := fs.WalkDir(os.DirFS("site/assets"), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".js" || strings.HasPrefix(name, "vendor/") {
			return err
		}
		body, err := os.ReadFile(path.Join("site/assets", name))
		for line := range strings.Lines(string(body)) {
			if source.MatchString(line) && !strings.Contains(line, "www.w3.org/2000/svg") {
				t.Errorf("%s: %s", name, strings.TrimSpace(line))
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestContentSecurityPolicyIsStrictUnlessConfigured(t *testing.T) {
	t.Parallel()
	h := serve(t, ui.Config{})
	head := load(h, "GET", "/ui/jobs").Header()
	csp := head.Get("Content-Security-Policy")
	for _, part := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "connect-src 'self'", "base-uri 'none'"} {
		if !strings.Contains(csp+";", part+";") {
			t.Errorf("%q has no %q", csp, part)
		}
	}
	if head.Get("X-Content-Type-Options") != "nosniff" || head.Get("X-Frame-Options") != "DENY" {
		t.Errorf("headers %v", head)
	}
	if terminal := load(h, "GET", "/ui/exec/a/t").Header().Get("Content-Security-Policy"); !strings.Contains(terminal, "style-src 'self' 'unsafe-inline'") || !strings.Contains(terminal, "script-src 'self';") {
		t.Errorf("the terminal: %q", terminal)
	}
	own := load(serve(t, ui.Config{Policy: map[string][]string{"frame-ancestors": {"https://portal.example"}}}), "GET", "/ui/").Header()
	if !strings.Contains(own.Get("Content-Security-Policy"), "frame-ancestors https://portal.example;") || own.Get("X-Frame-Options") != "" {
		t.Errorf("own policy: %v", own)
	}
}

func TestLabelIsText(t *testing.T) {
	t.Parallel()
	body := load(serve(t, ui.Config{Label: `"><script>x()</script>`, LabelBackground: `red" onload="x()`}), "GET", "/ui/").Body.String()
	if strings.Contains(body, "<script>x") || strings.Contains(body, `" onload`) {
		t.Errorf("the label became markup: %s", body)
	}
}

func TestFilesAreKeptByBrowsersAndCompressed(t *testing.T) {
	t.Parallel()
	h := serve(t, ui.Config{})
	at := assetsOf.FindString(load(h, "GET", "/ui/").Body.String())
	w := load(h, "GET", at+"/main.js", "Accept-Encoding", "br, gzip;q=0.5")
	if w.Code != 200 || w.Header().Get("Content-Encoding") != "gzip" || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") {
		t.Fatalf("main.js: %d %v", w.Code, w.Header())
	}
	z, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	packed, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	for _, accept := range []string{"", "gzip;q=0", "identity"} {
		if plain := load(h, "GET", at+"/main.js", "Accept-Encoding", accept); plain.Header().Get("Content-Encoding") != "" || plain.Body.String() != string(packed) {
			t.Errorf("Accept-Encoding %q: %v", accept, plain.Header())
		}
	}
}

// The first page is what the page of the jobs imports, directly or not.
func TestFirstPageIsSmall(t *testing.T) {
	t.Parallel()
	h := serve(t, ui.Config{})
	page := load(h, "GET", "/ui/", "Accept-Encoding", "gzip")
	total := page.Body.Len()
	at := assetsOf.FindString(load(h, "GET", "/ui/").Body.String())
	imported := regexp.MustCompile(`(?m)^import .* from '\./([a-z/]+\.js)'`)
	seen := map[string]bool{}
	var add func(name string)
	add = func(name string) {
		if seen[name] {
			return
		}
		seen[name] = true
		w := load(h, "GET", at+"/"+name, "Accept-Encoding", "gzip")
		if w.Code != 200 {
			t.Fatalf("%s: %d", name, w.Code)
		}
		total += w.Body.Len()
		for _, m := range imported.FindAllStringSubmatch(load(h, "GET", at+"/"+name).Body.String(), -1) {
			add(m[1])
		}
	}
	for _, name := range []string{"main.css", "icon.svg", "main.js", "jobs.js"} {
		add(name)
	}
	t.Logf("%d bytes in %d files", total, len(seen))
	if total > firstPageBytes || len(seen) < 8 {
		t.Errorf("the first page has %d bytes in %d files, want at most %d", total, len(seen), firstPageBytes)
	}
}

// A page that is in the table of routes and not in the site would fail only in the browser.
func TestEachRouteHasItsFile(t *testing.T) {
	t.Parallel()
	body, err := os.ReadFile("site/assets/main.js")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`\['/ui/[^']*', '([a-z]+\.js)'\]`).FindAllStringSubmatch(string(body), -1)
	if len(found) < 20 {
		t.Fatalf("found %d routes", len(found))
	}
	for _, m := range found {
		if _, err := os.Stat(path.Join("site/assets", m[1])); err != nil {
			t.Error(err)
		}
	}
}
