package jobspec_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/jobspec"
)

// TestSecretsOfJobAndGroupAreThoseOfTheirTasks: also those of tasks that have some of their own.
func TestSecretsOfJobAndGroupAreThoseOfTheirTasks(t *testing.T) {
	j := parse(t, jobspec.Input{Body: []byte(`
job "j" {
  secret "j" {
    provider = "nomad"
    path     = "j"
    config {
      namespace = "x"
    }
  }
  group "g" {
    secret "g" {
      provider = "pass"
      path     = "g"
      env {
        STORE = "/store"
      }
    }
    task "own" {
      driver = "raw_exec"
      secret "t" {
        provider = "nomad"
        path     = "t/${NOMAD_JOB_ID}"
      }
      env {
        A = "${secret.j.key}"
      }
    }
    task "none" {
      driver = "raw_exec"
    }
  }
  group "other" {
    task "other" {
      driver = "raw_exec"
    }
  }
}`)})
	for i, want := range []string{"own: t g j", "none: g j", "other: j"} {
		task := j.TaskGroups[i/2].Tasks[i%2]
		var names []string
		for _, s := range task.Secrets {
			names = append(names, s.Name)
		}
		if got := task.Name + ": " + strings.Join(names, " "); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	own := j.TaskGroups[0].Tasks[0]
	if own.Env["A"] != "${secret.j.key}" || own.Secrets[0].Path != "t/${NOMAD_JOB_ID}" || own.Secrets[1].Env["STORE"] != "/store" || own.Secrets[2].Config["namespace"] != "x" {
		t.Errorf("env %v, secrets %+v %+v %+v", own.Env, own.Secrets[0], own.Secrets[1], own.Secrets[2])
	}
}
