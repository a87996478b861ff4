package httpapi_test

import (
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

// TestTranscripts plays testdata/*.http: requests, each with the answer under "----".
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
				request, _, _ := strings.Cut(strings.TrimPrefix(part, "### "), "\n----\n")
				fmt.Fprintf(&got, "### %s\n----\n%s\n\n", strings.TrimSpace(request), play(request))
			}
			want := strings.TrimSpace(string(text))
			if have := strings.TrimSpace(got.String()); have != want {
				if !*rewrite {
					t.Fatalf("answers differ (run with -rewrite to take them):\n%s", have)
				}
				if err := os.WriteFile(f, []byte(have+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
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
