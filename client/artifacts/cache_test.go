package artifacts_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/open-nomad/open-nomad/client/artifacts"
)

// counted serves a body at every path and counts the downloads.
func counted(t *testing.T, body string) (*httptest.Server, *atomic.Int32) {
	t.Helper()
	var n atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			n.Add(1)
		}
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s, &n
}

func TestFilesWithChecksumsAreCached(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("cached", 100)
	s, downloads := counted(t, body)
	with := func(change func(*artifacts.Artifact)) artifacts.Artifact {
		a := artifacts.Artifact{Source: s.URL + "/f", Options: map[string]string{"checksum": sum([]byte(body))}}
		if change != nil {
			change(&a)
		}
		return a
	}
	n := newNode(t, nil)
	for i, c := range []struct {
		change    func(*artifacts.Artifact)
		namespace string
		want      int32
	}{
		{nil, "default", 1},
		{nil, "default", 1},
		{func(a *artifacts.Artifact) { a.Destination = "local/other" }, "default", 1},
		{func(a *artifacts.Artifact) { a.Headers = map[string]string{"X": "y"} }, "default", 2},
		{func(a *artifacts.Artifact) { a.Source += "2" }, "default", 3},
		{nil, "other", 4},
		{func(a *artifacts.Artifact) { a.Options = nil }, "default", 5},
		{func(a *artifacts.Artifact) { a.Options = nil }, "default", 6},
		{func(a *artifacts.Artifact) { a.Options, a.Source = nil, a.Source+"?checksum="+sum([]byte(body)) }, "default", 7}, // written in another way
	} {
		n.Namespace = c.namespace
		if err := n.fetch(t, with(c.change)); err != nil {
			t.Fatal(err)
		}
		if got := downloads.Load(); got != c.want {
			t.Errorf("case %d: %d downloads, want %d", i, got, c.want)
		}
	}
	n.wants(t, "local/f", body)
	n.wants(t, "local/other/f", body)

	// What a task does to its file does not change the cache, and a damaged file of the cache is downloaded again.
	n.Namespace = "default"
	if err := os.WriteFile(n.Task+"/local/f", []byte("changed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := n.fetch(t, with(nil)); err != nil || downloads.Load() != 7 {
		t.Errorf("%v, %d downloads", err, downloads.Load())
	}
	n.wants(t, "local/f", body)
	files, _ := filepath.Glob(filepath.Dir(filepath.Dir(n.Task)) + "/state/cache/*")
	for _, f := range files {
		if err := os.WriteFile(f, []byte("damaged"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := n.fetch(t, with(nil)); err != nil || downloads.Load() != 8 {
			t.Errorf("%v, %d downloads", err, downloads.Load())
		}
	}
	n.wants(t, "local/f", body)
}

func TestCacheKeepsTheFilesUsedLast(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("x", 100)
	s, downloads := counted(t, body)
	n := newNode(t, nil)
	n.LimitCache(400)
	get := func(i int) {
		if err := n.fetch(t, artifacts.Artifact{Source: fmt.Sprint(s.URL, "/", i), Options: map[string]string{"checksum": sum([]byte(body))}}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 4 {
		get(i)
	}
	get(0)
	get(4) // replaces 1
	if got := downloads.Load(); got != 5 {
		t.Errorf("%d downloads, want 5", got)
	}
	get(0)
	if got := downloads.Load(); got != 5 {
		t.Errorf("the file that was used again is downloaded")
	}
	get(1)
	if got := downloads.Load(); got != 6 {
		t.Errorf("%d downloads, want 6", got)
	}
	if files, _ := filepath.Glob(filepath.Dir(filepath.Dir(n.Task)) + "/state/cache/*"); len(files) != 4 {
		t.Errorf("the cache has %d files, want 4", len(files))
	}
}
