package rules_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/jobspec"
	"github.com/open-nomad/open-nomad/nomad/jobs/rules"
)

func valid() *api.Job {
	j := &api.Job{
		ID: "web", TaskGroups: []*api.TaskGroup{{
			Name: "g", Count: 1,
			Networks: []*api.NetworkResource{{DynamicPorts: []api.Port{{Label: "http"}}}},
			Volumes: map[string]*api.VolumeRequest{"data": {
				Name: "data", Type: "csi", Source: "vol", AccessMode: "single-node-writer", AttachmentMode: "file-system",
			}},
			Tasks: []*api.Task{{
				Name: "t", Driver: "raw_exec", VolumeMounts: []*api.VolumeMount{{Volume: "data", Destination: "/data"}},
			}},
		}},
	}
	jobspec.Canonicalize(j)
	return j
}

func TestCheckTakesAValidJob(t *testing.T) {
	t.Parallel()
	if errs := rules.Check(valid(), rules.Default()); len(errs) > 0 {
		t.Fatal(errors.Join(errs...))
	}
}

func TestCheckNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	group := func(j *api.Job) *api.TaskGroup { return j.TaskGroups[0] }
	task := func(j *api.Job) *api.Task { return j.TaskGroups[0].Tasks[0] }
	volume := func(j *api.Job) *api.VolumeRequest { return j.TaskGroups[0].Volumes["data"] }
	constrain := func(k api.Constraint) func(*api.Job) {
		return func(j *api.Job) { j.Constraints = []*api.Constraint{&k} }
	}
	for want, change := range map[string]func(*api.Job){
		`job has no ID`:                          func(j *api.Job) { j.ID = "" },
		`job ID "a b" contains a space`:          func(j *api.Job) { j.ID = "a b" },
		`job name contains NUL`:                  func(j *api.Job) { j.Name = "a\x00" },
		`job type "cron" is not one of`:          func(j *api.Job) { j.Type = "cron" },
		`job priority 101 is not between`:        func(j *api.Job) { j.Priority = 101 },
		`a datacenter is empty`:                  func(j *api.Job) { j.Datacenters = []string{"dc1", ""} },
		`job has no task group`:                  func(j *api.Job) { j.TaskGroups = nil },
		`group 1 has no name`:                    func(j *api.Job) { group(j).Name = "" },
		`group "g" is there twice`:               func(j *api.Job) { j.TaskGroups = append(j.TaskGroups, group(j)) },
		`job asks for 50001 allocations`:         func(j *api.Job) { group(j).Count = 50_001 },
		`group "g": count -1 is negative`:        func(j *api.Job) { group(j).Count = -1 },
		`group "g" has no task`:                  func(j *api.Job) { group(j).Tasks = nil },
		`runs on every node and cannot have aff`: func(j *api.Job) { j.Type, j.Affinities = "system", []*api.Affinity{{}} },
		`runs on every node and cannot have spr`: func(j *api.Job) { j.Type, j.Spreads = "sysbatch", []*api.Spread{{}} },
		`count 3 is not possible`:                func(j *api.Job) { j.Type, group(j).Count = "system", 3 },
		`a system job is not rescheduled`:        func(j *api.Job) { j.Type, group(j).ReschedulePolicy = "system", &api.ReschedulePolicy{Unlimited: true} },

		`group "g": restart mode "soon"`:    func(j *api.Job) { group(j).RestartPolicy.Mode = "soon" },
		`group "g": restart attempts -1`:    func(j *api.Job) { group(j).RestartPolicy.Attempts = -1 },
		`group "g": restart interval must`:  func(j *api.Job) { group(j).RestartPolicy.Interval = 0 },
		`do not fit into an interval of 1s`: func(j *api.Job) { group(j).RestartPolicy.Interval = time.Second },
		`port "http" is there twice`:        func(j *api.Job) { group(j).Networks[0].ReservedPorts = []api.Port{{Label: "http", Value: 80}} },
		`port "a": 70000 is not a port`:     func(j *api.Job) { group(j).Networks[0].ReservedPorts = []api.Port{{Label: "a", Value: 70_000}} },
		`ports "a" and "b" are both 80`: func(j *api.Job) {
			group(j).Networks[0].ReservedPorts = []api.Port{{Label: "a", Value: 80}, {Label: "b", Value: 80}}
		},
		`group "g" has 2 networks`:                   func(j *api.Job) { group(j).Networks = append(group(j).Networks, &api.NetworkResource{}) },
		`volume "data": type "nfs"`:                  func(j *api.Job) { volume(j).Type = "nfs" },
		`volume "data" has no source`:                func(j *api.Job) { volume(j).Source = "" },
		`volume "data": access_mode is required`:     func(j *api.Job) { volume(j).AccessMode = "" },
		`volume "data": attachment_mode is required`: func(j *api.Job) { volume(j).AttachmentMode = "" },
		`attachment_mode "tape" is not`:              func(j *api.Job) { volume(j).AttachmentMode = "tape" },
		`read_only with access mode multi-node-s`:    func(j *api.Job) { volume(j).ReadOnly, volume(j).AccessMode = true, "multi-node-single-writer" },
		`per_alloc is not possible in a system job`:  func(j *api.Job) { j.Type, volume(j).PerAlloc = "system", true },
		`a canary can never get a volume`:            func(j *api.Job) { group(j).Update.Canary = 1 },
		`per_alloc is not possible with canaries`:    func(j *api.Job) { group(j).Update.Canary, volume(j).PerAlloc = 1, true },

		`group "g", task "alloc": the name`:  func(j *api.Job) { task(j).Name = "alloc" },
		`group "g", task "a/b": the name`:    func(j *api.Job) { task(j).Name = "a/b" },
		`group "g": task 1 has no name`:      func(j *api.Job) { task(j).Name = "" },
		`group "g", task "t" is there twice`: func(j *api.Job) { group(j).Tasks = append(group(j).Tasks, task(j)) },
		`task "t" has no driver`:             func(j *api.Job) { task(j).Driver = "" },
		`task "t": kill_timeout is negative`: func(j *api.Job) { task(j).KillTimeout = -1 },
		`task "t": shutdown_delay is nega`:   func(j *api.Job) { task(j).ShutdownDelay = -1 },
		`task "t": resources need cpu`:       func(j *api.Job) { task(j).Resources.CPU = 0 },
		`memory 9 MB is below the minimum`:   func(j *api.Job) { task(j).Resources.MemoryMB = 9 },
		`memory_max 20 MB is below memory`:   func(j *api.Job) { task(j).Resources.MemoryMaxMB = 20 },
		`logs need max_files`:                func(j *api.Job) { task(j).LogConfig.MaxFiles = 0 },
		`logs of 1000 MB do not fit`:         func(j *api.Job) { task(j).LogConfig.MaxFiles = 100 },
		`lifecycle hook "never" is not`:      func(j *api.Job) { task(j).Lifecycle = &api.TaskLifecycle{Hook: "never"} },
		`group "g" has no main task`:         func(j *api.Job) { task(j).Lifecycle = &api.TaskLifecycle{Hook: "prestart"} },
		`volume_mount names volume "other"`:  func(j *api.Job) { task(j).VolumeMounts[0].Volume = "other" },
		`volume_mount of "data" has no dest`: func(j *api.Job) { task(j).VolumeMounts[0].Destination = "" },
		`csi_plugin id "a/b" must be`:        func(j *api.Job) { task(j).CSIPluginConfig = &api.CSIPluginConfig{ID: "a/b", Type: "node"} },
		`csi_plugin type "disk" is not`:      func(j *api.Job) { task(j).CSIPluginConfig = &api.CSIPluginConfig{ID: "a", Type: "disk"} },
		`csi_plugin health_timeout is neg`: func(j *api.Job) {
			task(j).CSIPluginConfig = &api.CSIPluginConfig{ID: "a", Type: "node", HealthTimeout: -1}
		},
		`stage_publish_base_dir /csi/x must`: func(j *api.Job) {
			task(j).CSIPluginConfig = &api.CSIPluginConfig{ID: "a", Type: "node", MountDir: "/csi", StagePublishBaseDir: "/csi/x"}
		},
		`job: constraint operator "~" is not`: constrain(api.Constraint{LTarget: "a", Operand: "~"}),
		`job: constraint regexp:`:             constrain(api.Constraint{LTarget: "a", Operand: "regexp", RTarget: "("}),
		`job: constraint version "x":`:        constrain(api.Constraint{LTarget: "a", Operand: "version", RTarget: "x"}),
		`job: distinct_hosts "maybe" is not`:  constrain(api.Constraint{Operand: "distinct_hosts", RTarget: "maybe"}),
		`distinct_property count "0" is not`:  constrain(api.Constraint{LTarget: "a", Operand: "distinct_property", RTarget: "0"}),
		`job: a constraint has no attribute`:  constrain(api.Constraint{RTarget: "linux"}),
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			j := valid()
			change(j)
			errs := rules.Check(j, rules.Default())
			if !slices.ContainsFunc(errs, func(err error) bool { return strings.Contains(err.Error(), want) }) {
				t.Errorf("got %v", errs)
			}
		})
	}
}

func TestCheckListsEverything(t *testing.T) {
	t.Parallel()
	j := valid()
	j.ID, j.Priority, j.TaskGroups[0].Tasks[0].Driver = "", 0, ""
	if errs := rules.Check(j, rules.Default()); len(errs) != 3 {
		t.Errorf("%d problems: %v", len(errs), errs)
	}
}

func TestPluginsAreListedOnce(t *testing.T) {
	t.Parallel()
	j := valid()
	p := &api.CSIPluginConfig{ID: "ebs", Type: "node"}
	j.TaskGroups[0].Tasks = append(j.TaskGroups[0].Tasks, &api.Task{CSIPluginConfig: p}, &api.Task{CSIPluginConfig: p})
	if got := fmt.Sprint(rules.Plugins(j)); got != "[ebs]" {
		t.Errorf("plugins %s", got)
	}
}
