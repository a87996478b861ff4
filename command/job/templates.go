package job

import (
	"embed"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/view"
	"github.com/open-nomad/open-nomad/jobspec/examples"
)

//go:embed templates/*.nomad.hcl
var ownTemplates embed.FS

const templateEnding = ".nomad.hcl"

// templates are the job files that "job init" can write, by name.
func templates() (map[string]string, error) {
	found := map[string]string{}
	own, err := fs.Sub(ownTemplates, "templates")
	if err != nil {
		return nil, err
	}
	for _, from := range []fs.FS{examples.Files, own} {
		names, err := fs.Glob(from, "*"+templateEnding)
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			text, err := fs.ReadFile(from, n)
			if err != nil {
				return nil, err
			}
			found[strings.TrimSuffix(n, templateEnding)] = string(text)
		}
	}
	return found, nil
}

// templateTable lists the templates with the first sentence of each.
func templateTable(all map[string]string) string {
	table := [][]string{{"Name", "Description"}}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		table = append(table, []string{name, sentence(all[name])})
	}
	return view.Table(table...)
}

// sentence is the first sentence of the comment that a file begins with.
func sentence(text string) string {
	var words []string
	for line := range strings.Lines(text) {
		comment, ok := strings.CutPrefix(strings.TrimSpace(line), "# ")
		if !ok {
			break
		}
		words = append(words, comment)
	}
	first, _, _ := strings.Cut(strings.Join(words, " "), ". ")
	return strings.TrimRight(first, ".:")
}

// template is the text of one.
func template(all map[string]string, name string) (string, error) {
	if text, ok := all[name]; ok {
		return text, nil
	}
	return "", fault.New(fault.NotFound, "there is no template %q: see nomad job init -list-templates", name)
}
