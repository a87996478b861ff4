package jobspec_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/open-nomad/open-nomad/jobspec"
	"github.com/open-nomad/open-nomad/jobspec/files"
)

// A program that reads a file through the servers and sends the job on gets the same job as one that sends it complete.
func TestJobWithoutDefaultsIsTheSameJob(t *testing.T) {
	t.Parallel()
	all, _ := filepath.Glob("testdata/*.nomad.hcl")
	more, _ := filepath.Glob("examples/*.nomad.hcl")
	for _, f := range append(all, more...) {
		body, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		presence := &jobspec.Presence{}
		job, err := jobspec.Parse(jobspec.Input{Path: f, Body: body, Files: files.Functions(filepath.Dir(f)), Presence: presence})
		if err != nil {
			continue // those that are wrong, or want variables
		}
		text, err := json.Marshal(presence.Source(job))
		if err != nil {
			t.Fatal(err)
		}
		again, err := jobspec.DecodeJSON(text)
		if err != nil {
			t.Fatal(err)
		}
		jobspec.Canonicalize(job)
		jobspec.Canonicalize(again)
		if diff := cmp.Diff(asJSON(t, job), asJSON(t, again)); diff != "" {
			t.Errorf("%s differs (-want +got):\n%s", f, diff)
		}
	}
}
