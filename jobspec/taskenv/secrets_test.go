package taskenv_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/jobspec/taskenv"
)

func TestReferencesToSecrets(t *testing.T) {
	in := taskenv.Input{
		Alloc: &api.Allocation{ID: "a1", Name: "j.g[0]"},
		Task: &api.Task{Name: "t", Meta: map[string]string{"m": "${secret.db.pass}"}, Env: map[string]string{
			"A": "x ${secret.db.pass} y", "B": "${secret.db.none}", "C": "${secret.other.k}", "secret.db.pass": "own",
		}},
		Secrets: map[string]string{"db.pass": "${NOMAD_TASK_NAME} $1"},
	}
	e := taskenv.New(in)
	vars := e.Vars()
	if vars["A"] != "x ${NOMAD_TASK_NAME} $1 y" || vars["NOMAD_META_m"] != "${secret.db.pass}" {
		t.Errorf("%q", vars)
	}
	if got := e.Config(map[string]any{"args": []any{"${secret.db.pass}"}})["args"].([]any)[0]; got != "${NOMAD_TASK_NAME} $1" {
		t.Errorf("config: %q", got)
	}
	err := e.Unknown()
	if err == nil || err.Error() != `${secret.db.none}: secret "db" has no key "none"; ${secret.other.k}: secret "other" has no key "k"` || strings.Contains(err.Error(), "$1") {
		t.Errorf("%v", err)
	}

	in.Secrets = nil
	e = taskenv.New(in)
	if vars := e.Vars(); vars["B"] != "${secret.db.none}" || e.Unknown() != nil {
		t.Errorf("without secrets: %q %v", vars, e.Unknown())
	}
}
