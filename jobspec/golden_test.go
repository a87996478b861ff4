package jobspec_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/jobspec"
	"github.com/open-nomad/open-nomad/jobspec/files"
)

// settled drops what says nothing: null, zero, "", false and empty containers are one and the same.
func settled(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, inner := range v {
			if s := settled(inner); s != nil {
				out[k] = s
			}
		}
		if len(out) == 0 {
			return nil
		}
		return out
	case []any:
		var out []any
		for _, inner := range v {
			out = append(out, settled(inner))
		}
		if len(out) == 0 {
			return nil
		}
		return out
	case string:
		if v == "" {
			return nil
		}
	case float64:
		if v == 0 {
			return nil
		}
	case bool:
		if !v {
			return nil
		}
	}
	return v
}

func equal(a, b any) bool { return cmp.Equal(a, b) }

// decoded is v as JSON and back.
func decoded(t *testing.T, v any) (out any) {
	t.Helper()
	body, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(body, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func asJSON(t *testing.T, v any) any { return settled(decoded(t, v)) }

// A job has the recorded JSON forms: as the file has it, and with all defaults.
func TestGoldenFiles(t *testing.T) {
	paths, _ := filepath.Glob("testdata/[0-9]*.nomad.hcl")
	for _, f := range paths {
		t.Run(filepath.Base(f), func(t *testing.T) {
			body, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			set := &jobspec.Presence{}
			job, err := jobspec.Parse(jobspec.Input{Path: f, Body: body, Files: files.Functions("testdata"), Presence: set})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(f + ".source.json"); errors.Is(err, os.ErrNotExist) {
				return // a file of our own
			}
			var source struct{ Job any }
			recorded(t, f+".source.json", &source)
			if diff := cmp.Diff(source.Job, decoded(t, set.Source(job))); diff != "" {
				t.Errorf("differs (-want +got):\n%s", diff)
			}
			jobspec.Canonicalize(job)
			var canonical any
			if _, err := os.Stat(f + ".canon.json"); errors.Is(err, os.ErrNotExist) {
				return
			}
			text := recorded(t, f+".canon.json", &canonical)
			if diff := cmp.Diff(canonical, decoded(t, set.Canonical(job))); diff != "" {
				t.Errorf("with all defaults it differs (-want +got):\n%s", diff)
			}
			again, err := jobspec.DecodeJSON(text)
			if err != nil {
				t.Fatal(err)
			}
			jobspec.Canonicalize(again)
			if diff := cmp.Diff(asJSON(t, job), asJSON(t, again)); diff != "" {
				t.Errorf("the JSON reader differs (-want +got):\n%s", diff)
			}
		})
	}
}

func recorded(t *testing.T, path string, into any) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
	return text
}

var place = regexp.MustCompile(`\.hcl:\d+:\d+: `)

func TestBadFilesNameTheirPlace(t *testing.T) {
	files, _ := filepath.Glob("testdata/err-*.nomad.hcl")
	if len(files) == 0 {
		t.Fatal("no files")
	}
	for _, f := range files {
		body, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		_, err = jobspec.Parse(jobspec.Input{Path: f, Body: body})
		if err == nil || !errors.Is(err, fault.Invalid) || !place.MatchString(err.Error()) {
			t.Errorf("%s: got %v", f, err)
			continue
		}
		t.Log(strings.ReplaceAll(err.Error(), "\n", " | "))
	}
}
