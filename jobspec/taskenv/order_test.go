package taskenv_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/jobspec/taskenv"
)

func TestOneInputGivesOneEnvironment(t *testing.T) {
	want := map[string]string{
		"NOMAD_META_url": "http://h1/", "NOMAD_META_FOO": "given", "NOMAD_META_Foo": "upper", "NOMAD_META_foo": "lower",
		"NOMAD_META_a_b": "exact", "NOMAD_META_BAR": "small", "NOMAD_META_c_d": "dot",
	}
	for range 50 {
		vars := taskenv.New(taskenv.Input{Alloc: &api.Allocation{ID: "a"}, Task: &api.Task{Name: "t", Meta: map[string]string{
			"url": "http://${NOMAD_META_host}/", "host": "h1", "foo": "lower", "Foo": "upper", "FOO": "given", "Bar": "big", "bar": "small",
			"a.b": "dot", "a-b": "dash", "a_b": "exact", "c-d": "dash", "c.d": "dot",
		}}}).Vars()
		for name, value := range want {
			if vars[name] != value {
				t.Fatalf("%s is %q, want %q", name, vars[name], value)
			}
		}
	}
}
