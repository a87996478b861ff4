package rules_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/jobs/rules"
)

func TestTemplateFunctionsOfOtherProductsAreRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`plain key`:                    "",
		`{{ env "key" }}{{/* key */}}`: "",
		`{{ with nomadVar "x" }}{{ .key }}{{ .secret }}{{ end }}`:                "",
		`{{ if }} {{ key "x" }}`:                                                 "",
		`{{ key "x" }}`:                                                          "template 1: function key, which needs Consul",
		`{{ with secret "x" }}{{ end }}`:                                         "template 1: function secret, which needs Vault",
		`{{ range $s := services }}{{ else }}{{ end }}`:                          "function services, which needs Consul",
		`{{ if true }}{{ else }}{{ "x" | toUpper | keyOrDefault "y" }}{{ end }}`: "function keyOrDefault, which needs Consul",
		`{{ define "a" }}{{ (ls "x").y }}{{ end }}`:                              "function ls, which needs Consul",
		strings.Repeat("{{ if 1 }}", 100000):                                     "",
	} {
		j := &api.Job{TaskGroups: []*api.TaskGroup{{Name: "g", Tasks: []*api.Task{{Name: "t", Templates: []*api.Template{{EmbeddedTmpl: text}}}}}}}
		if got := fmt.Sprint(rules.Later(j)); !strings.Contains(got, want) || (want == "") != (got == "[]") {
			t.Errorf("%.60s: got %s, want %q", text, got, want)
		}
	}
	m := &api.Template{EmbeddedTmpl: `[[ key "x" ]] {{ key "x" }}`, LeftDelim: "[[", RightDelim: "]]"}
	j := &api.Job{TaskGroups: []*api.TaskGroup{{Name: "g", Tasks: []*api.Task{{Name: "t", Templates: []*api.Template{m}}}}}}
	if len(rules.Later(j)) != 1 {
		t.Errorf("got %v", rules.Later(j))
	}
}
