package main_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// pathInDocs is a name of the repository in backquotes, perhaps with a name of Go in that file: `dir/file.go:Name`.
	pathInDocs = regexp.MustCompile("`((?:api|client|cmd|command|docs|jobspec|nomad|plugins|tools|\\.ci)/[\\w./*{},-]+)(?::(\\w+))?`")
	// linkInDocs is the target of a link.
	linkInDocs = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	// made are files that a build makes.
	made = []string{"plugins/driver/supervise/bin"}
)

// TestPathsInDocsExist holds documents to the tree: files, directories and names of Go that they mention are there.
func TestPathsInDocsExist(t *testing.T) {
	t.Parallel()
	root := "../.."
	found := 0
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (strings.HasPrefix(e.Name(), ".") && e.Name() != ".." || e.Name() == "testdata"):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".md") || e.Name() == "CHANGELOG.md":
			return nil
		}
		body, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for i, line := range strings.Split(string(body), "\n") {
			for _, m := range pathInDocs.FindAllStringSubmatch(line, -1) {
				found++
				if why := missing(root, m[1], m[2]); why != "" {
					t.Errorf("%s:%d: %s", path, i+1, why)
				}
			}
			for _, m := range linkInDocs.FindAllStringSubmatch(line, -1) {
				found++
				if why := missing(filepath.Dir(path), m[1], ""); why != "" {
					t.Errorf("%s:%d: %s", path, i+1, why)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 150 {
		t.Errorf("only %d paths were found", found)
	}
}

// missing says what of a path is not there; "" when all is.
func missing(dir, path, name string) string {
	for _, one := range unfold(strings.TrimSuffix(path, "/...")) {
		if slices.ContainsFunc(made, func(m string) bool { return strings.HasPrefix(one, m) }) {
			continue
		}
		files, err := filepath.Glob(filepath.Join(dir, one))
		if err != nil || len(files) == 0 {
			return one + " does not exist"
		}
		if name == "" {
			continue
		}
		body, err := os.ReadFile(files[0])
		if err != nil {
			return err.Error()
		}
		// A function, a method or its receiver, or what else is declared.
		if !regexp.MustCompile(`(?m)^(func (\(\w* ?\*?|\([^)]*\) )?|type |\t|var |const )` + name + `\b`).Match(body) {
			return one + " has no " + name
		}
	}
	return ""
}

// unfold lists what a path with braces stands for.
func unfold(path string) []string {
	before, rest, ok := strings.Cut(path, "{")
	if !ok {
		return []string{path}
	}
	inside, after, _ := strings.Cut(rest, "}")
	var all []string
	for part := range strings.SplitSeq(inside, ",") {
		all = append(all, unfold(before+part+after)...)
	}
	return all
}

// TestScenariosHaveTests holds the list of fault scenarios to the tests: each number has one in each file that its row
// names, and each test with a number is in the list.
func TestScenariosHaveTests(t *testing.T) {
	t.Parallel()
	dir := "../../cmd/nomad/e2e/faults"
	list, err := os.ReadFile("../../docs/scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| (\d\d) \|.*\| ([^|]+) \|$`).FindAllStringSubmatch(string(list), -1) {
		for file := range strings.SplitSeq(row[2], ", ") {
			file = strings.Trim(file, "`")
			listed[row[1]+file] = true
			if body, err := os.ReadFile(filepath.Join(dir, file)); err != nil || !strings.Contains(string(body), "func TestFault"+row[1]) {
				t.Errorf("scenario %s has no test in %s", row[1], file)
			}
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil || len(files) == 0 || len(listed) == 0 {
		t.Fatalf("%d files of tests, %d in the list, %v", len(files), len(listed), err)
	}
	for _, f := range files {
		body, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`func TestFault(\d\d)\w+`).FindAllStringSubmatch(string(body), -1) {
			if !listed[m[1]+filepath.Base(f)] {
				t.Errorf("%s of %s is not in docs/scenarios.md", m[0], f)
			}
		}
	}
}
