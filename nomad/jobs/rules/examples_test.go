package rules_test

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/open-nomad/open-nomad/jobspec"
	"github.com/open-nomad/open-nomad/jobspec/examples"
	"github.com/open-nomad/open-nomad/nomad/jobs/rules"
)

func TestEveryExampleIsValid(t *testing.T) {
	t.Parallel()
	names, err := fs.Glob(examples.Files, "*.nomad.hcl")
	if err != nil || len(names) == 0 {
		t.Fatalf("examples %v %v", names, err)
	}
	for _, name := range names {
		body, err := examples.Files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		j, err := jobspec.Parse(jobspec.Input{Path: name, Body: body})
		if err != nil {
			t.Fatal(err)
		}
		jobspec.Canonicalize(j)
		rules.Complete(j)
		if errs := append(rules.Check(j, rules.Default()), rules.Later(j)...); len(errs) > 0 {
			t.Errorf("%s: %v", name, errors.Join(errs...))
		}
		if w := rules.Warnings(j, false); w != "" {
			t.Errorf("%s: %s", name, w)
		}
	}
}
