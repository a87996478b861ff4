package policy_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The document names every capability of namespaces, and its examples are valid.
func TestDocumentIsComplete(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("../../../docs/access.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range strings.Fields(readOfNamespace + " " + addedByWrite + " " + onlyExplicit) {
		if !strings.Contains(string(file), "`"+word+"`") {
			t.Errorf("%s is missing", word)
		}
		parse(t, `namespace "x" { capabilities = ["`+word+`"] }`)
	}
	examples := regexp.MustCompile("(?s)```hcl\n(.*?)```").FindAllStringSubmatch(string(file), -1)
	if len(examples) == 0 {
		t.Error("there is no example")
	}
	for _, e := range examples {
		parse(t, e[1])
	}
	json := regexp.MustCompile("`(\\{\"namespace.*?)`").FindStringSubmatch(string(file))
	parse(t, json[1])
}
