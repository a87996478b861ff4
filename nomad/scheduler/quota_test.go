package scheduler_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
)

func inNamespace(ns string) func(*api.Job) { return func(j *api.Job) { j.Namespace = ns } }

// Jobs of default and team-b share 1200 MHz; each allocation uses 500.
func TestNamespacesOfAQuotaShareItsLimit(t *testing.T) {
	for _, kind := range []string{api.JobTypeService, api.JobTypeBatch, api.JobTypeSystem} {
		t.Run(kind, func(t *testing.T) {
			c := newCluster(t)
			c.nodes(3)
			c.limit(&api.QuotaResources{CPU: new(1200)}, "team-b")
			first := job("first", api.JobTypeService, 1)
			c.register(first)
			c.run(first)
			second := job("second", kind, 3, inNamespace("team-b"))
			c.register(second)
			o := c.run(second)
			m := o.Failed["g"]
			if len(placed(o)) != 1 || m == nil || o.Queued["g"] != 2 || m.CoalescedFailures != 1 {
				t.Fatalf("placed %d, queued %v, failed %+v", len(placed(o)), o.Queued, m)
			}
			want := "team: cpu exhausted (1500 needed > 1200 limit)"
			if len(m.QuotaExhausted) != 1 || m.QuotaExhausted[0] != want || m.NodesExhausted != 0 {
				t.Errorf("metric %+v, want %q", m, want)
			}
			blocked := scheduler.Done(&api.Evaluation{ID: "e", Type: kind, TriggeredBy: api.TriggerJobRegister}, o, 20, c.now, c.id)[0]
			if blocked.Status != api.EvalStatusBlocked || blocked.QuotaLimitReached != "team" || blocked.NodeID != "" ||
				blocked.StatusDescription != "quota limit hit: "+want {
				t.Errorf("blocked evaluation is %+v", blocked)
			}
		})
	}
}

func TestQuotaDimensions(t *testing.T) {
	memoryMax := func(j *api.Job) { j.TaskGroups[0].Tasks[0].Resources.MemoryMaxMB = 1000 }
	devices := func(name string, n uint64) []*api.RequestedDevice {
		return []*api.RequestedDevice{{Name: name, Count: n}}
	}
	gpu := func(j *api.Job) { j.TaskGroups[0].Tasks[0].Resources.Devices = devices("acme/gpu", 0) }
	secrets := func(j *api.Job) { j.NodePool, j.TaskGroups[0].Tasks[0].Resources.SecretsMB = "gpu", 10 }
	inPool := func(j *api.Job) { j.NodePool = "gpu" }
	for _, c := range []struct {
		name  string
		limit api.QuotaResources
		job   func(*api.Job)
		want  string // "" permits two allocations
	}{
		{"enough", api.QuotaResources{CPU: new(1000), MemoryMB: new(512), MemoryMaxMB: new(512)}, nil, ""},
		{"memory", api.QuotaResources{MemoryMB: new(511)}, nil, "memory exhausted (512 needed > 511 limit)"},
		{"memory_max", api.QuotaResources{MemoryMaxMB: new(1500)}, memoryMax, "memory_max exhausted (2000 needed > 1500 limit)"},
		{"enough secrets", api.QuotaResources{SecretsMB: new(20)}, secrets, ""},
		{"secrets", api.QuotaResources{SecretsMB: new(19)}, secrets, "secrets exhausted (20 needed > 19 limit)"},
		{
			"secrets of a node pool",
			api.QuotaResources{NodePools: []*api.NodePoolLimit{{NodePool: "gpu", SecretsMB: new(-1)}}},
			secrets,
			"secrets of node pool gpu exhausted (10 needed > 0 limit)",
		},
		{"nothing", api.QuotaResources{CPU: new(-1)}, nil, "cpu exhausted (500 needed > 0 limit)"},
		{"zero is no limit", api.QuotaResources{CPU: new(0)}, nil, ""},
		{"device", api.QuotaResources{Devices: devices("gpu", 1)}, gpu, "device gpu exhausted (2 needed > 1 limit)"},
		{"enough devices", api.QuotaResources{Devices: devices("acme/gpu/9", 2)}, gpu, ""},
		{"another device", api.QuotaResources{Devices: devices("zeta/gpu", 1)}, gpu, ""},
		{"another node pool", api.QuotaResources{NodePools: []*api.NodePoolLimit{{NodePool: "gpu", CPU: new(1)}}}, nil, ""},
		{
			"node pool",
			api.QuotaResources{NodePools: []*api.NodePoolLimit{{NodePool: "gpu", CPU: new(700)}}},
			inPool,
			"cpu of node pool gpu exhausted (1000 needed > 700 limit)",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newCluster(t)
			w.node("n1", func(n *api.Node) {
				n.NodeResources.Devices = []*api.NodeDeviceResource{{
					Vendor: "acme", Type: "gpu", Name: "9", Instances: []*api.NodeDevice{{ID: "0", Healthy: true}, {ID: "1", Healthy: true}},
				}}
			})
			w.node("n2", func(n *api.Node) { n.NodePool = "gpu" })
			w.limit(&c.limit)
			j := job("j", api.JobTypeService, 2)
			if c.job != nil {
				c.job(j)
			}
			w.register(j)
			o := w.run(j)
			got := ""
			if m := o.Failed["g"]; m != nil {
				got = strings.Join(m.QuotaExhausted, "; ")
			}
			if len(o.Failed) > 0 && c.want == "" {
				t.Errorf("not placed: %+v", o.Failed["g"])
			}
			if want := strings.TrimSuffix("team: "+c.want, "team: "); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// A job that uses all of its quota can be updated: the successor takes what its predecessor leaves.
func TestUpdateWithinAFullQuota(t *testing.T) {
	c := newCluster(t)
	c.nodes(1)
	c.limit(&api.QuotaResources{CPU: new(1000)})
	j := job("j", api.JobTypeService, 2)
	c.register(j)
	c.run(j)
	c.setRunning("j")
	next := job("j", api.JobTypeService, 2, func(j *api.Job) { j.TaskGroups[0].Tasks[0].Env = map[string]string{"new": "1"} })
	c.register(next)
	if o := c.run(next); len(placed(o)) != 2 || len(stopped(o)) != 2 || len(o.Failed) != 0 {
		t.Fatalf("placed %d, stopped %d, failed %v", len(placed(o)), len(stopped(o)), o.Failed)
	}
	// The predecessors count until their node reports the end.
	c.register(job("j", api.JobTypeService, 3, func(j *api.Job) { j.TaskGroups[0].Tasks[0].Env = map[string]string{"new": "1"} }))
	o := c.run(job("j", api.JobTypeService, 3))
	if m := o.Failed["g"]; m == nil || len(m.QuotaExhausted) != 1 || !strings.Contains(m.QuotaExhausted[0], "2500 needed") {
		t.Errorf("failed %+v", m)
	}
}
