package jobspec_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
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
		said := &jobspec.Said{}
		job, err := jobspec.Parse(jobspec.Input{Path: f, Body: body, Files: files.Functions(filepath.Dir(f)), Said: said})
		if err != nil {
			continue // those that are wrong, or want variables
		}
		text, err := json.Marshal(said.JSON(job))
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

func TestWhatAFileDoesNotSayIsNull(t *testing.T) {
	t.Parallel()
	file := `
job "j" {
  update { auto_revert = true }
  group "g" {
    count = 0
    restart { attempts = 0 }
    update { auto_revert = false }
    service {
      provider = "nomad"
      check {
        type = "tcp"
        check_restart { limit = 2 }
      }
    }
    task "t" {
      driver = "raw_exec"
      config { command = "/bin/true" }
      resources { cpu = 50 }
      template { data = "x" }
    }
  }
}`
	said := &jobspec.Said{}
	job, err := jobspec.Parse(jobspec.Input{Body: []byte(file), Said: said})
	if err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(said.JSON(job))
	if err != nil {
		t.Fatal(err)
	}
	var got any
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]any{
		"ID": "j", "Name": "j", "Namespace": nil, "Type": nil, "Priority": nil, "Region": nil, "Stop": nil, "Version": nil,
		"Dispatched": false, "Datacenters": nil, "Periodic": nil, "Update.AutoRevert": true, "Update.MaxParallel": nil,
		"TaskGroups.0.Name": "g", "TaskGroups.0.Count": 0.0, "TaskGroups.0.EphemeralDisk": nil,
		"TaskGroups.0.RestartPolicy.Attempts": 0.0, "TaskGroups.0.RestartPolicy.Mode": nil,
		"TaskGroups.0.Update.AutoRevert": false, "TaskGroups.0.Update.Canary": nil,
		"TaskGroups.0.Services.0.Provider": "nomad", "TaskGroups.0.Services.0.OnUpdate": "",
		"TaskGroups.0.Services.0.Checks.0.CheckRestart.Limit": 2.0, "TaskGroups.0.Services.0.Checks.0.CheckRestart.Grace": nil,
		"TaskGroups.0.Tasks.0.Driver": "raw_exec", "TaskGroups.0.Tasks.0.User": "", "TaskGroups.0.Tasks.0.KillTimeout": nil,
		"TaskGroups.0.Tasks.0.RestartPolicy": nil, "TaskGroups.0.Tasks.0.LogConfig": nil,
		"TaskGroups.0.Tasks.0.Resources.CPU": 50.0, "TaskGroups.0.Tasks.0.Resources.MemoryMB": nil,
		"TaskGroups.0.Tasks.0.Templates.0.ChangeMode": "restart", "TaskGroups.0.Tasks.0.Templates.0.LeftDelim": nil,
	} {
		if value, ok := at(got, path); !ok || value != want {
			t.Errorf("%s is %v (%v), want %v", path, value, ok, want)
		}
	}
}

// at is the value at a path of names and numbers.
func at(v any, path string) (any, bool) {
	for _, step := range strings.Split(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			value, ok := in[step]
			if !ok {
				return nil, false
			}
			v = value
		case []any:
			if step != "0" || len(in) == 0 {
				return nil, false
			}
			v = in[0]
		default:
			return nil, false
		}
	}
	return v, true
}
