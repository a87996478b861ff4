package diff_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/jobs/diff"
)

func web() *api.Job {
	return &api.Job{
		ID: "web", Name: "web", Namespace: "default", Type: "service", Priority: 50,
		Datacenters: []string{"dc1", "dc2"}, Meta: map[string]string{"team": "x"},
		TaskGroups: []*api.TaskGroup{{
			Name: "g", Count: 2,
			Networks:      []*api.NetworkResource{{DynamicPorts: []api.Port{{Label: "http"}}}},
			EphemeralDisk: &api.EphemeralDisk{SizeMB: 300},
			Constraints:   []*api.Constraint{{LTarget: "${attr.kernel.name}", RTarget: "linux"}},
			Volumes:       map[string]*api.VolumeRequest{"data": {Name: "data", Type: "csi", Source: "data"}},
			Tasks: []*api.Task{{
				Name: "t", Driver: "raw_exec", Env: map[string]string{"A": "1"}, KillTimeout: time.Second,
				Config:    map[string]any{"command": "/bin/a", "args": []any{"x", "y"}, "ports": map[string]any{"db": 1}},
				Resources: &api.Resources{CPU: 50, MemoryMB: 32},
			}},
		}},
	}
}

// lines shows a difference, one change a line; what stayed is left out.
func lines(d *api.JobDiff) []string {
	out := []string{fmt.Sprintf("job %s %s", d.Type, d.ID)}
	out = append(out, within("", d.Fields, d.Objects)...)
	for _, g := range d.TaskGroups {
		out = append(out, fmt.Sprintf("group %s %s", g.Type, g.Name))
		out = append(out, within(g.Name+"/", g.Fields, g.Objects)...)
		for _, t := range g.Tasks {
			out = append(out, fmt.Sprintf("task %s %s", t.Type, t.Name))
			out = append(out, within(g.Name+"/"+t.Name+"/", t.Fields, t.Objects)...)
		}
	}
	return out
}

func within(at string, fields []*api.FieldDiff, objects []*api.ObjectDiff) []string {
	var out []string
	for _, f := range fields {
		if f.Type != diff.None {
			out = append(out, fmt.Sprintf("%s%s %s %q %q", at, f.Type, f.Name, f.Old, f.New))
		}
	}
	for _, o := range objects {
		out = append(out, fmt.Sprintf("%s%s {%s}", at, o.Type, o.Name))
		out = append(out, within(at+o.Name+"/", o.Fields, o.Objects)...)
	}
	return out
}

func TestJobsTellsEveryChange(t *testing.T) {
	t.Parallel()
	const same = "job Edited web|group None g|task None t"
	for name, c := range map[string]struct {
		change func(*api.Job)
		want   string
	}{
		"nothing":       {func(*api.Job) {}, "job None web|group None g|task None t"},
		"server fields": {func(j *api.Job) { j.Version, j.ModifyIndex, j.Status, j.Stable = 4, 9, "dead", true }, "job None web|group None g|task None t"},
		"priority":      {func(j *api.Job) { j.Priority = 60 }, strings.Replace(same, "|", `|Edited Priority "50" "60"|`, 1)},
		"meta": {
			func(j *api.Job) { j.Meta = map[string]string{"owner": "y"} },
			strings.Replace(same, "|", `|Added Meta[owner] "" "y"|Deleted Meta[team] "x" ""|`, 1),
		},
		"datacenters": {
			func(j *api.Job) { j.Datacenters = []string{"dc2", "dc3"} },
			strings.Replace(same, "|", `|Edited {Datacenters}|Datacenters/Added Datacenters "" "dc3"|Datacenters/Deleted Datacenters "dc1" ""|`, 1),
		},
		"order": {
			func(j *api.Job) { j.Datacenters = []string{"dc2", "dc1"} },
			strings.Replace(same, "|", `|Edited {Datacenters}|Datacenters/Edited Datacenters[0] "dc1" "dc2"|Datacenters/Edited Datacenters[1] "dc2" "dc1"|`, 1),
		},
		"periodic": {
			func(j *api.Job) { j.Periodic = &api.PeriodicConfig{Spec: "@daily"} },
			strings.Replace(same, "|", `|Added {Periodic}|Periodic/Added Enabled "" "false"|Periodic/Added ProhibitOverlap "" "false"|Periodic/Added Spec "" "@daily"|`, 1),
		},
		"count": {
			func(j *api.Job) { j.TaskGroups[0].Count = 3 },
			`job Edited web|group Edited g|g/Edited Count "2" "3"|task None t`,
		},
		"port": {func(j *api.Job) {
			j.TaskGroups[0].Networks[0].DynamicPorts = nil
			j.TaskGroups[0].Networks[0].ReservedPorts = []api.Port{{Label: "http", Value: 80}}
		}, `job Edited web|group Edited g|g/Deleted {Network}|` +
			`g/Network/Deleted {Dynamic Port}|g/Network/Dynamic Port/Deleted Label "http" ""|g/Network/Dynamic Port/Deleted To "0" ""|` +
			`g/Added {Network}|g/Network/Added {Static Port}|g/Network/Static Port/Added Label "" "http"|` +
			`g/Network/Static Port/Added To "" "0"|g/Network/Static Port/Added Value "" "80"|task None t`},
		"disconnect": {func(j *api.Job) {
			j.TaskGroups[0].Disconnect = &api.DisconnectStrategy{LostAfter: 1}
		}, `job Edited web|group Edited g|g/Added {Disconnect}|g/Disconnect/Added LostAfter "" "1"|g/Disconnect/Added Replace "" "false"|` +
			`g/Disconnect/Added StopOnClientAfter "" "nil"|task None t`},
		"volume": {func(j *api.Job) {
			j.TaskGroups[0].Volumes["data"].MountOptions = &api.MountOptions{MountFlags: []string{"noatime"}}
		}, `job Edited web|group Edited g|g/Edited {Volume}|g/Volume/Added {MountOptions}|` +
			`g/Volume/MountOptions/Added {MountFlags}|g/Volume/MountOptions/MountFlags/Added MountFlags "" "noatime"|task None t`},
		"constraint": {
			func(j *api.Job) { j.TaskGroups[0].Constraints[0].RTarget = "darwin" },
			`job Edited web|group Edited g|g/Added {Constraint}|g/Constraint/Added LTarget "" "${attr.kernel.name}"|g/Constraint/Added RTarget "" "darwin"|` +
				`g/Deleted {Constraint}|g/Constraint/Deleted LTarget "${attr.kernel.name}" ""|g/Constraint/Deleted RTarget "linux" ""|task None t`,
		},
		"task": {func(j *api.Job) {
			j.TaskGroups[0].Tasks[0].Env["B"] = "x"
			j.TaskGroups[0].Tasks[0].Resources.MemoryMB = 40
		}, `job Edited web|group Edited g|task Edited t|g/t/Added Env[B] "" "x"|g/t/Edited {Resources}|g/t/Resources/Edited MemoryMB "32" "40"`},
		"config": {func(j *api.Job) {
			j.TaskGroups[0].Tasks[0].Config = map[string]any{"command": "/bin/a", "args": []any{"x", "z", "y"}, "ports": map[string]any{"db": 2}}
		}, `job Edited web|group Edited g|task Edited t|g/t/Edited {Config}|g/t/Config/Edited args[1] "y" "z"|g/t/Config/Added args[2] "" "y"|g/t/Config/Edited ports[db] "1" "2"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			next := web()
			c.change(next)
			got := strings.Join(lines(diff.Jobs(web(), next)), "|")
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if same := diff.Same(web(), next); same != strings.Contains(got, "job None") {
				t.Errorf("Same answers %v", same)
			}
		})
	}
}

func TestJobsMatchesTasksByName(t *testing.T) {
	t.Parallel()
	next := web()
	next.TaskGroups[0].Tasks[0].Name = "u"
	d := diff.Jobs(web(), next).TaskGroups[0]
	if len(d.Tasks) != 2 || d.Type != diff.Edited || d.Tasks[0].Type != diff.Deleted || d.Tasks[1].Type != diff.Added {
		t.Errorf("a renamed task: %+v", d)
	}
}

func TestJobsShowsWhatStayedInsideAChangedBlock(t *testing.T) {
	t.Parallel()
	next := web()
	next.TaskGroups[0].Tasks[0].Resources.MemoryMB = 40
	d := diff.Jobs(web(), next).TaskGroups[0].Tasks[0].Objects[0]
	i := slices.IndexFunc(d.Fields, func(f *api.FieldDiff) bool { return f.Name == "CPU" })
	if i < 0 || d.Fields[i].Type != diff.None || d.Fields[i].Old != "50" || d.Fields[i].New != "50" {
		t.Errorf("CPU is missing beside the changed memory: %+v", d.Fields)
	}
}

func TestJobsOfOneSide(t *testing.T) {
	t.Parallel()
	if d := diff.Jobs(nil, web()); d.Type != diff.Added || d.TaskGroups[0].Type != diff.Added || d.TaskGroups[0].Tasks[0].Type != diff.Added {
		t.Errorf("new job: %v", lines(d))
	}
	if d := diff.Jobs(web(), nil); d.Type != diff.Deleted || d.ID != "web" || d.TaskGroups[0].Type != diff.Deleted {
		t.Errorf("deleted job: %v", lines(d))
	}
	if d := diff.Jobs(nil, nil); d.Type != diff.None {
		t.Errorf("no job: %v", lines(d))
	}
	added := strings.Join(lines(diff.Jobs(nil, web())), "|")
	for _, want := range []string{`Added Name "" "web"`, `g/Added Count "" "2"`, `g/t/Added {Config}`, `g/t/Config/Added args[0] "" "x"`} {
		if !strings.Contains(added, want) {
			t.Errorf("a new job lacks %s: %s", want, added)
		}
	}
	if strings.Contains(added, "ShutdownDelay \"\" \"0\"|group") || strings.Contains(added, "MaxRunDuration") {
		t.Errorf("a new job shows what nobody set: %s", added)
	}
}

func TestJobsWithStrangeJobs(t *testing.T) {
	t.Parallel()
	strange := &api.Job{
		TaskGroups:  []*api.TaskGroup{nil, {}, {Tasks: []*api.Task{nil, {Config: map[string]any{"a": nil, "b": []any{}}}}}},
		Constraints: []*api.Constraint{nil, {}, {}}, Multiregion: &api.Multiregion{Regions: []*api.MultiregionRegion{nil}},
	}
	if d := diff.Jobs(strange, strange); d.Type != diff.None {
		t.Errorf("a job differs from itself: %v", lines(d))
	}
	if d := diff.Jobs(strange, web()); d.Type != diff.Edited {
		t.Errorf("different jobs: %s", d.Type)
	}
}

func TestSameLooksThroughEncodings(t *testing.T) {
	t.Parallel()
	a := web()
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	b := &api.Job{}
	if err := json.Unmarshal(text, b); err != nil {
		t.Fatal(err)
	}
	if !diff.Same(a, b) {
		t.Error("a number of a driver's configuration differs after JSON")
	}
	b.Affinities, b.VaultNamespace, b.Payload = []*api.Affinity{}, "", []byte{}
	b.TaskGroups[0].Meta = map[string]string{}
	if !diff.Same(a, b) {
		t.Error("nil and empty differ")
	}
	b.TaskGroups[0].Update = &api.UpdateStrategy{}
	if diff.Same(a, b) {
		t.Error("an empty block is the same as none")
	}
	if diff.Same(a, nil) || !diff.Same(nil, nil) {
		t.Error("a job is the same as none")
	}
}
