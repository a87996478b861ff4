package main_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// private are words that this project once had for things with names of their own: service, HTTP or RPC server, mount
// health, operation, leave, lease keeper, preference, loop, source of work, interceptors. docs/glossary.md has the words
// that are used. Nor do numbers of a list that is not in the repository name tests.
var private = regexp.MustCompile(`(?i)\b(doors?|wards?|deeds?|farewells?|lessees?|wish(es|ed)?|rooms|abroad|amnesic|dut(y|ies)|desks?|stations)\b|// [A-Z][0-9]+: |\bTest[A-Z][0-9]`)

// room is capacity, or free resources, where work is placed.
var (
	room   = regexp.MustCompile(`(?i)\broom\b`)
	places = regexp.MustCompile(`/nomad/(scheduler|broker|evals|deployments|plan|jobs|nodes|gc)/`)
)

func TestWordsAreThoseOfTheField(t *testing.T) {
	t.Parallel()
	err := filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
		switch name := e.Name(); {
		case err != nil:
			return err
		case e.IsDir() && (strings.HasPrefix(name, ".") && name != ".." || name == "testdata" || name == "bin"):
			return fs.SkipDir
		case e.IsDir(), name == "CHANGELOG.md", name == "words_test.go", strings.HasPrefix(name, "zz_"):
			return nil
		case !strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, ".md"):
			return nil
		}
		if strings.Contains(path, "defect") {
			t.Errorf("%s: files are named by what they hold", path)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for i, line := range strings.Split(string(b), "\n") {
			word := private.FindString(line)
			if word == "" && places.MatchString(filepath.ToSlash(path)) {
				word = room.FindString(line)
			}
			if word != "" {
				t.Errorf("%s:%d: %q", path, i+1, word)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
