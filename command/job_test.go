package command_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

const withVariables = `
variable "n" {
  type    = number
  default = 1
}
variable "note" {
  default = "none"
}
variable "from" {
  default = ""
}
job "x" {
  meta {
    note = var.note
    from = var.from
    text = file("%DIR%/text")
  }
  group "g" {
    count = var.n
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/true"
      }
    }
  }
}
`

func jobFile(t *testing.T, body string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"text": "hello", "x.nomad.hcl": strings.ReplaceAll(body, "%DIR%", dir), "v.hcl": `note = "from file"`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "x.nomad.hcl")
}

func TestJobFilesGetTheirVariables(t *testing.T) {
	t.Setenv("NOMAD_VAR_from", "environment")
	file := jobFile(t, withVariables)
	a := newAgent(t, map[string]any{"PUT /v1/jobs": &api.JobRegisterResponse{EvalID: "e1"}})
	run(t, a, "", "job", "run", "-detach", "-var", "n=3", "-var-file", filepath.Join(filepath.Dir(file), "v.hcl"), file).want(t, 0, "Evaluation ID: e1")
	var req api.JobRegisterRequest
	if err := json.Unmarshal([]byte(a.bodies["PUT /v1/jobs"]), &req); err != nil {
		t.Fatal(err)
	}
	j := req.Job
	if j.TaskGroups[0].Count != 3 || j.Meta["note"] != "from file" || j.Meta["from"] != "environment" || j.Meta["text"] != "hello" {
		t.Errorf("count %d, meta %v", j.TaskGroups[0].Count, j.Meta)
	}
	if req.Submission.Format != "hcl2" || req.Submission.VariableFlags["n"] != "3" || !strings.Contains(req.Submission.Source, `job "x"`) {
		t.Errorf("submission %+v", req.Submission)
	}
}

func TestJobFileFromStdin(t *testing.T) {
	a := newAgent(t, map[string]any{"PUT /v1/jobs": &api.JobRegisterResponse{EvalID: "e1"}})
	run(t, a, "job \"x\" {\n group \"g\" {\n task \"t\" {\n driver = \"raw_exec\"\n }\n }\n}\n", "run", "-detach", "-namespace", "team", "-").want(t, 0, "successful")
	if !strings.Contains(strings.Join(a.asked, "\n"), "namespace=team") {
		t.Errorf("asked %v", a.asked)
	}
}

func TestMistakesNameTheirPlace(t *testing.T) {
	file := jobFile(t, "job \"x\" {\n  group \"g\" {\n    tusk \"t\" {}\n  }\n}\n")
	run(t, newAgent(t, nil), "", "job", "run", file).want(t, 1, file+":3", "tusk")
	run(t, newAgent(t, nil), "", "job", "plan", file).want(t, 255, file+":3")
	run(t, newAgent(t, nil), "", "job", "validate", file).want(t, 255, file+":3")
	run(t, newAgent(t, nil), "", "job", "run", "-var", "novalue", file).want(t, 1, "-var is not key=value")
}

func TestValidate(t *testing.T) {
	file := jobFile(t, withVariables)
	a := newAgent(t, map[string]any{"PUT /v1/validate/job": &api.JobValidateResponse{ValidationErrors: []string{"no driver"}, Error: "1 error"}})
	run(t, a, "", "validate", file).want(t, 1, "* no driver")
	a = newAgent(t, map[string]any{"PUT /v1/validate/job": &api.JobValidateResponse{}})
	run(t, a, "", "validate", file).want(t, 0, "Job validation successful")
}

func TestRunOutputPrintsTheJob(t *testing.T) {
	file := jobFile(t, withVariables)
	a := newAgent(t, nil)
	run(t, a, "", "job", "run", "-output", file).want(t, 0, `"ID": "x"`, `"note": "none"`, `"Namespace": null`, `"Priority": null`, `"Update": null`)
	if len(a.asked) > 0 {
		t.Errorf("asked %v", a.asked)
	}
}

func TestTheExampleIsAJob(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.hcl")
	for _, c := range []struct {
		args []string
		want string
	}{{[]string{"init", path}, `"Source": "data"`}, {[]string{"init", "-short", path + ".short"}, `"ID": "example"`}} {
		run(t, nil, "", c.args...).want(t, 0)
		run(t, newAgent(t, nil), "", "run", "-output", c.args[len(c.args)-1]).want(t, 0, c.want)
	}
}

func TestTemplatesAreJobs(t *testing.T) {
	o := run(t, nil, "", "job", "init", "-list-templates")
	o.want(t, 0, "periodic", "parameterized", "canary", "csi-volume")
	for _, line := range strings.Split(strings.TrimSpace(o.out), "\n")[1:] {
		name := strings.Fields(line)[0]
		path := filepath.Join(t.TempDir(), name)
		run(t, nil, "", "job", "init", "-template", name, path).want(t, 0)
		run(t, newAgent(t, nil), "", "run", "-output", path).want(t, 0, `"TaskGroups"`)
	}
	run(t, nil, "", "job", "init", "-template", "nope", filepath.Join(t.TempDir(), "x")).want(t, 1, `no template "nope"`)
	run(t, nil, "", "job", "init", "-connect").want(t, 1, "no service mesh")
	run(t, nil, "", "job", "init", "-template", "batch", "-short").want(t, 1, "cannot be combined")
}
