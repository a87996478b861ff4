package jobspec_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/jobspec"
)

func parse(t *testing.T, in jobspec.Input) *api.Job {
	t.Helper()
	job, err := jobspec.Parse(in)
	if err != nil {
		t.Fatal(err)
	}
	jobspec.Canonicalize(job)
	return job
}

const greeting = `
variable "who" {
  type    = string
  default = "default"
}
job "hello" {
  group "g" {
    restart {
      attempts = 7
    }
    task "t" {
      driver = "raw_exec"
      restart {
        mode = "delay"
      }
      config {
        command = "echo"
        args    = ["${var.who}", "${NOMAD_ALLOC_ID}", "${meta.rack}-x", "${env["HOME"]}"]
      }
    }
  }
}`

func TestVariableSourcesByStrength(t *testing.T) {
	file := jobspec.File{Path: "v.hcl", Body: []byte(`who = "file"`)}
	for want, in := range map[string]jobspec.Input{
		"default": {},
		"env":     {Env: []string{"NOMAD_VAR_who=env", "NOMAD_VAR_other=x"}},
		"file":    {Env: []string{"NOMAD_VAR_who=env"}, VarFiles: []jobspec.File{file}},
		"flag":    {VarFiles: []jobspec.File{file}, Vars: map[string]string{"who": "flag"}},
	} {
		in.Body = []byte(greeting)
		args := parse(t, in).TaskGroups[0].Tasks[0].Config["args"].([]any)
		if args[0] != want {
			t.Errorf("got %v, want %s", args[0], want)
		}
	}
}

func TestRuntimeReferencesSurvive(t *testing.T) {
	args := parse(t, jobspec.Input{Body: []byte(greeting)}).TaskGroups[0].Tasks[0].Config["args"].([]any)
	for i, want := range []string{"default", "${NOMAD_ALLOC_ID}", "${meta.rack}-x", `${env["HOME"]}`} {
		if args[i] != want {
			t.Errorf("args[%d] is %v, want %s", i, args[i], want)
		}
	}
}

func TestTaskRestartStartsFromTheGroups(t *testing.T) {
	p := parse(t, jobspec.Input{Body: []byte(greeting)}).TaskGroups[0].Tasks[0].RestartPolicy
	if p.Attempts != 7 || p.Mode != "delay" {
		t.Fatalf("restart policy is %+v", p)
	}
}

func TestUndeclaredVariableIsRefusedUnlessLenient(t *testing.T) {
	in := jobspec.Input{Body: []byte(greeting), Vars: map[string]string{"nobody": "1"}}
	if _, err := jobspec.Parse(in); err == nil || !strings.Contains(err.Error(), `variable "nobody" is not declared`) {
		t.Fatalf("got %v", err)
	}
	in.Lenient = true
	parse(t, in)
}

func TestJSONFormOfAFile(t *testing.T) {
	job := parse(t, jobspec.Input{Path: "j.json", Body: []byte(
		`{"job":{"hello":{"type":"batch","group":{"g":{"task":{"t":{"driver":"raw_exec","config":{"command":"true"},"env":{"A":"1"}}}}}}}}`)})
	task := job.TaskGroups[0].Tasks[0]
	if job.ID != "hello" || job.Type != "batch" || task.Config["command"] != "true" || task.Env["A"] != "1" {
		t.Fatalf("parsed %+v, task %+v", job, task)
	}
}

func TestNullLeavesTheDefault(t *testing.T) {
	job, err := jobspec.DecodeJSON([]byte(`{"ID":"j","Type":"batch","Priority":null,"TaskGroups":[
		{"Name":"g","Count":null,"RestartPolicy":{"Attempts":9,"Interval":null},"Tasks":[{"Name":"t","KillTimeout":null,"Resources":{"CPU":5}}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	g := job.TaskGroups[0]
	if job.Priority != 50 || g.Count != 1 || g.RestartPolicy.Attempts != 9 || g.RestartPolicy.Interval.Hours() != 24 ||
		g.Tasks[0].KillTimeout.Seconds() != 5 || g.Tasks[0].Resources.MemoryMB != 300 || g.Tasks[0].Resources.CPU != 5 {
		t.Fatalf("decoded %+v", g)
	}
}

func TestExplicitZeroBeatsTheDefault(t *testing.T) {
	job, err := jobspec.DecodeJSON([]byte(`{"ID":"j","TaskGroups":[{"Name":"g","Count":0,"RestartPolicy":{"Attempts":0}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	jobspec.Canonicalize(job)
	if g := job.TaskGroups[0]; g.Count != 0 || g.RestartPolicy.Attempts != 0 {
		t.Fatalf("decoded %+v", g)
	}
}

func TestHostileTextsAreRefused(t *testing.T) {
	for name, body := range map[string]string{
		"brackets": "job \"x\" {\n a = " + strings.Repeat("[", 400_000),
		"signs":    "job \"x\" {\n a = " + strings.Repeat("-", 400_000) + "1\n}",
		"template": "job \"x\" {\n a = " + strings.Repeat(`"${`, 200_000),
		"size":     strings.Repeat(" ", jobspec.SizeMax+1),
	} {
		_, err := jobspec.Parse(jobspec.Input{Body: []byte(body)})
		if !errors.Is(err, fault.Invalid) && !errors.Is(err, fault.TooLarge) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := jobspec.DecodeJSON([]byte(strings.Repeat(`{"a":`, 1_000_000))); !errors.Is(err, fault.Invalid) {
		t.Errorf("deep JSON: got %v", err)
	}
	if _, err := jobspec.DecodeJSON(make([]byte, 32<<20)); !errors.Is(err, fault.TooLarge) {
		t.Errorf("large JSON: got %v", err)
	}
}

func TestFilesAreOutOfReachOfServers(t *testing.T) {
	_, err := jobspec.Parse(jobspec.Input{Body: []byte("job \"x\" {\n name = file(\"/etc/passwd\")\n group \"g\" {\n task \"t\" {\n driver = \"mock\"\n}\n}\n}")})
	if err == nil || !strings.Contains(err.Error(), "command line only") {
		t.Fatalf("got %v", err)
	}
}

// What a job needs is said by its validation.
func TestAFileWithoutGroupsParses(t *testing.T) {
	if job := parse(t, jobspec.Input{Body: []byte(`job "x" {}`)}); job.ID != "x" || len(job.TaskGroups) != 0 {
		t.Errorf("%+v", job)
	}
}

func TestCanonicalizeIsIdempotent(t *testing.T) {
	job := parse(t, jobspec.Input{Body: []byte(greeting)})
	once := asJSON(t, job)
	jobspec.Canonicalize(job)
	if twice := asJSON(t, job); !equal(once, twice) {
		t.Fatal("the second time changed something")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(greeting)
	f.Add(`{"job":{"x":{"group":{}}}}`)
	f.Fuzz(func(_ *testing.T, body string) {
		_, _ = jobspec.Parse(jobspec.Input{Body: []byte(body)}) // must answer, not panic
	})
}

func TestCountIsAtLeastWhatItMayBeScaledTo(t *testing.T) {
	for _, c := range []struct {
		hcl, json string
		want      int
	}{
		{`scaling { min = 2 max = 3 }`, `"Scaling": {"Min": 2, "Max": 3}`, 2},
		{`count = 1  scaling { min = 2 max = 3 }`, `"Count": 1, "Scaling": {"Min": 2, "Max": 3}`, 1},
		{`count = null  scaling { min = 2 max = 3 }`, `"Scaling": {"Min": 2, "Max": 3}, "Count": null`, 2},
		{`scaling { max = 3 }`, `"Scaling": {"Max": 3}`, 1},
		{``, `"Name": "g"`, 1},
	} {
		body := strings.ReplaceAll(strings.ReplaceAll(c.hcl, "  ", "\n"), " max", "\n max")
		body = strings.ReplaceAll(strings.ReplaceAll(body, "{ ", "{\n"), " }", "\n}")
		j, err := jobspec.Parse(jobspec.Input{Path: "j.hcl", Body: []byte("job \"j\" {\n group \"g\" {\n" + body + "\n task \"t\" {\n driver = \"d\"\n}\n}\n}")})
		if err != nil || j.TaskGroups[0].Count != c.want {
			t.Errorf("%s: %v, %v", c.hcl, j, err)
		}
		k, err := jobspec.DecodeJSON([]byte(`{"ID": "j", "TaskGroups": [{` + c.json + `}]}`))
		if err != nil || k.TaskGroups[0].Count != c.want {
			t.Errorf("%s: %v, %v", c.json, k, err)
		}
	}
}

// Autoscalers rely on the bounds: one that nobody gave is the count.
func TestScalingPoliciesAreCompletedAndChecked(t *testing.T) {
	file := func(group, task string) []byte {
		return []byte("job \"j\" {\n group \"g\" {\n count = 4\n" + group + "\n task \"t\" {\n driver = \"mock\"\n" + task + "\n}\n}\n}\n")
	}
	job, err := jobspec.Parse(jobspec.Input{Path: "j.hcl", Body: file("scaling {\n max = 5\n}", "scaling \"mem\" {\n max = 900\n}")})
	if err != nil {
		t.Fatal(err)
	}
	g := job.TaskGroups[0]
	if s := g.Scaling; s.Min != 4 || s.Type != "horizontal" || !s.Enabled {
		t.Errorf("the group is scaled by %+v", s)
	}
	if s := g.Tasks[0].ScalingPolicies[0]; s.Min != 0 || s.Type != "vertical_mem" {
		t.Errorf("the task is scaled by %+v", s)
	}
	sent, err := jobspec.DecodeJSON([]byte(`{"ID":"j","TaskGroups":[{"Name":"g","Count":4,"Scaling":{"Max":5,"Min":null}},{"Name":"h","Count":4,"Scaling":{"Max":5,"Min":0}}]}`))
	if err != nil || sent.TaskGroups[0].Scaling.Min != 4 || sent.TaskGroups[1].Scaling.Min != 0 {
		t.Errorf("sent: %v, %+v, %+v", err, sent.TaskGroups[0].Scaling, sent.TaskGroups[1].Scaling)
	}
	for want, body := range map[string][]byte{
		"j.hcl:4:1: scaling needs max":                                      file("scaling {\n min = 1\n}", ""),
		`j.hcl:7:1: scaling needs max`:                                      file("", "scaling \"cpu\" {\n min = 1\n}"),
		`j.hcl:7:9: scaling of a task is one of cpu, mem`:                   file("", "scaling \"disk\" {\n max = 1\n}"),
		`j.hcl:10:1: scaling "cpu" is there twice`:                          file("", "scaling \"cpu\" {\n max = 1\n}\nscaling \"cpu\" {\n max = 2\n}"),
		`j.hcl:4:1: scaling has the type "horizontal" here, not "vertical"`: file("scaling {\n max = 5\n type = \"vertical\"\n}", ""),
	} {
		if _, err := jobspec.Parse(jobspec.Input{Path: "j.hcl", Body: body}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
}

func TestReservedPortsHaveABlockOfTheirOwn(t *testing.T) {
	job, err := jobspec.Parse(jobspec.Input{Path: "j.hcl", Body: []byte(`job "j" {
  group "g" {
    network {
      reserved_ports "ssh" {
        static = 22
      }
      port "http" {
        static = 80
      }
      port "any" {}
    }
    task "t" {
      driver = "mock"
    }
  }
}
`)})
	if err != nil {
		t.Fatal(err)
	}
	n := job.TaskGroups[0].Networks[0]
	if len(n.ReservedPorts) != 2 || n.ReservedPorts[0] != (api.Port{Label: "ssh", Value: 22}) || len(n.DynamicPorts) != 1 {
		t.Errorf("ports %+v, %+v", n.ReservedPorts, n.DynamicPorts)
	}
}
