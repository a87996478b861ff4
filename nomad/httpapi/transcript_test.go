package httpapi_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the answers into testdata")

// shownHeaders are those that users rely on.
var shownHeaders = []string{"Content-Type", "X-Nomad-Index", "X-Nomad-Knownleader", "X-Nomad-Lastcontact", "X-Nomad-Nexttoken"}

// TestTranscripts plays testdata/*.http: requests, each with the answer under "----". Answers may
// have more fields than the transcript says, never fewer or others.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.http")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for _, part := range strings.Split(strings.TrimSpace(string(text)), "\n\n### ") {
				request, want, _ := strings.Cut(strings.TrimPrefix(part, "### "), "\n----\n")
				have := play(request)
				fmt.Fprintf(&got, "### %s\n----\n%s\n\n", strings.TrimSpace(request), have)
				if !*rewrite && !agrees(want, have) {
					t.Errorf("%s\nanswered:\n%s\nwant (or run with -rewrite):\n%s", request, have, want)
				}
			}
			if *rewrite {
				if err := os.WriteFile(f, []byte(strings.TrimSpace(got.String())+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// agrees compares heads exactly, and bodies in JSON by what is wanted.
func agrees(want, have string) bool {
	wantHead, wantBody, _ := strings.Cut(strings.TrimSpace(want), "\n\n")
	haveHead, haveBody, _ := strings.Cut(have, "\n\n")
	var w, h any
	if json.Unmarshal([]byte(wantBody), &w) != nil || json.Unmarshal([]byte(haveBody), &h) != nil {
		return wantHead == haveHead && wantBody == haveBody
	}
	return wantHead == haveHead && within(w, h)
}

func within(want, have any) bool {
	switch w := want.(type) {
	case map[string]any:
		h, ok := have.(map[string]any)
		for k, v := range w {
			x, has := h[k]
			ok = ok && has && within(v, x)
		}
		return ok
	case []any:
		h, ok := have.([]any)
		ok = ok && len(h) == len(w)
		for i := range w {
			ok = ok && within(w[i], h[i])
		}
		return ok
	}
	return want == have
}

func play(request string) string {
	line, body, _ := strings.Cut(strings.TrimSpace(request), "\n")
	method, target, _ := strings.Cut(line, " ")
	return dump(send(handler(world()), method, target, body))
}

func dump(w *httptest.ResponseRecorder) string {
	var b strings.Builder
	fmt.Fprintln(&b, w.Code)
	for _, h := range shownHeaders {
		if v := w.Header().Get(h); v != "" {
			fmt.Fprintf(&b, "%s: %s\n", h, v)
		}
	}
	return strings.TrimSpace(b.String() + "\n" + strings.TrimSpace(w.Body.String()))
}
