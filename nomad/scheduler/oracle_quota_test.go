package scheduler_test

import (
	"pgregory.net/rapid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// drawQuota limits the namespace in half of the worlds.
func drawQuota(t *rapid.T, c *cluster) {
	if rapid.Bool().Draw(t, "no quota") {
		return
	}
	limit := func(name string, values ...int) *int {
		n := rapid.SampledFrom(values).Draw(t, name)
		return &n
	}
	c.limit(&api.QuotaResources{
		CPU: limit("quota cpu", 0, 0, -1, 300, 1500), Cores: limit("quota cores", 0, 0, -1, 2, 5),
		MemoryMB: limit("quota memory", 0, 0, -1, 200, 900),
	})
}

// limit gives the namespaces the quota "team".
func (c *cluster) limit(l *api.QuotaResources, more ...string) {
	c.write(func(tx *state.Txn) {
		tx.PutQuota(&api.QuotaSpec{Name: "team", Limits: []*api.QuotaLimit{{Region: "global", RegionLimit: l}}})
		for _, name := range append(more, "default") {
			tx.PutNamespace(&api.Namespace{Name: name, Quota: "team"})
		}
	})
}

// quotaRefusal returns why the quota does not permit one more of the ask.
func (k oracleAsk) quotaRefusal(t *table) string {
	if t.quota == nil {
		return ""
	}
	cpu, cores, memory := k.cpu, k.cores, k.memory
	if cores > 0 {
		cpu = 0
	}
	used := map[string]int{}
	for _, a := range t.allocs {
		r := a.AllocatedResources.Tasks["t"]
		used["memory"] += int(r.Memory.MemoryMB)
		if n := len(r.Cpu.ReservedCores); n > 0 {
			used["cores"] += n
		} else {
			used["cpu"] += int(r.Cpu.CpuShares)
		}
	}
	for _, d := range []struct {
		name  string
		ask   int
		limit *int
	}{{"cpu", cpu, t.quota.CPU}, {"cores", cores, t.quota.Cores}, {"memory", memory, t.quota.MemoryMB}} {
		if *d.limit != 0 && d.ask > 0 && used[d.name]+d.ask > *d.limit {
			return "quota of " + d.name
		}
	}
	return ""
}
