package examples_test

import (
	"encoding/json"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/jobspec"
	"github.com/open-nomad/open-nomad/jobspec/examples"
	"github.com/open-nomad/open-nomad/jobspec/volumespec"
)

func parse(t *testing.T, name string, vars map[string]string) *api.Job {
	t.Helper()
	body, err := examples.Files.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	job, err := jobspec.Parse(jobspec.Input{Path: name, Body: body, Vars: vars})
	if err != nil {
		t.Fatal(err)
	}
	jobspec.Canonicalize(job)
	return job
}

func TestEveryJobParsesAndSurvivesJSON(t *testing.T) {
	t.Parallel()
	names, err := fs.Glob(examples.Files, "*.nomad.hcl")
	if err != nil || len(names) < 5 {
		t.Fatalf("examples %v %v", names, err)
	}
	for _, name := range names {
		job := parse(t, name, nil)
		body, err := json.Marshal(job)
		if err != nil {
			t.Fatal(err)
		}
		again, err := jobspec.DecodeJSON(body)
		if err != nil {
			t.Fatal(err)
		}
		jobspec.Canonicalize(again)
		second, err := json.Marshal(again)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(body), string(second)); d != "" {
			t.Errorf("%s changes on its way through JSON:\n%s", name, d)
		}
	}
}

func TestBatchExampleFollowsItsVariables(t *testing.T) {
	t.Parallel()
	job := parse(t, "batch.nomad.hcl", map[string]string{"count": "3", "words": `["a", "b", "c"]`})
	g := job.TaskGroups[0]
	if job.Type != "batch" || g.Count != 3 || len(g.Tasks) != 3 {
		t.Fatalf("type %s, count %d, %d tasks", job.Type, g.Count, len(g.Tasks))
	}
	args, _ := g.Tasks[2].Config["args"].([]any)
	if len(args) != 2 || args[0] != "C" || args[1] != "from allocation ${NOMAD_ALLOC_INDEX}" {
		t.Errorf("args %v", args)
	}
	body, err := examples.Files.ReadFile("batch.nomad.hcl")
	if err != nil {
		t.Fatal(err)
	}
	_, err = jobspec.Parse(jobspec.Input{Path: "batch", Body: body, Vars: map[string]string{"count": "0"}})
	if err == nil || !strings.Contains(err.Error(), "between 1 and 100") {
		t.Errorf("count 0: %v", err)
	}
}

func TestPluginAndVolumeFitTogether(t *testing.T) {
	t.Parallel()
	plugin := parse(t, "csi-plugin.nomad.hcl", map[string]string{"nomad": "/opt/nomad"})
	task := plugin.TaskGroups[0].Tasks[0]
	if task.Config["command"] != "/opt/nomad" || task.CSIPluginConfig == nil || task.CSIPluginConfig.Type != api.CSIPluginTypeMonolith {
		t.Fatalf("plugin task %+v", task)
	}
	for name, text := range map[string]string{"volume.hcl": examples.Volume, "volume.json": examples.VolumeJSON} {
		v, err := volumespec.Parse(name, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if v.PluginID != task.CSIPluginConfig.ID || len(v.RequestedCapabilities) != 2 {
			t.Errorf("%s: %+v", name, v)
		}
		user := parse(t, "csi-volume.nomad.hcl", nil).TaskGroups[0].Volumes["store"]
		if user.Source != v.ID || user.AccessMode != string(v.RequestedCapabilities[0].AccessMode) {
			t.Errorf("%s: the job asks for %+v", name, user)
		}
	}
}

func TestCommentedVolumeKeysAreReal(t *testing.T) {
	t.Parallel()
	var lines []string
	for l := range strings.Lines(examples.Volume) {
		bare, commented := strings.CutPrefix(l, "# ")
		if commented && strings.ContainsAny(bare, "={}") {
			l = bare
		}
		lines = append(lines, l)
	}
	v, err := volumespec.Parse("volume.hcl", []byte(strings.Join(lines, "")))
	if err != nil {
		t.Fatal(err)
	}
	if v.SnapshotID == "" || v.CloneID == "" || v.ExternalID == "" || len(v.RequestedTopologies.Required) != 1 || v.Secrets["key"] != "value" {
		t.Errorf("%+v", v)
	}
}
