package plan

import (
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/quota"
)

// openQuota finds the quota of the plan's namespace, with what the plans before this one place.
func (v *verifier) openQuota(p *api.Plan) {
	v.quota, v.stopped = nil, nil
	if p.Job == nil {
		return
	}
	n := v.tx.Namespace(p.Job.Namespace)
	if n == nil || n.Quota == "" {
		return
	}
	b, known := v.books[n.Quota]
	if !known {
		if b = quota.Open(v.tx, n.Name); v.books == nil {
			v.books = map[string]*quota.Book{}
		}
		v.books[n.Quota] = b
	}
	v.quota = b
}

// countPlaced adds a placement of the plan to the usage of the quota (n = 1) or removes it (n = -1).
func (v *verifier) countPlaced(p *api.Plan, a *api.Allocation, n int64) {
	if v.quota != nil {
		v.quota.Count(withJob(p, a), n)
	}
}

// stopCounting lets the placements of the plan use what a stopped allocation leaves.
func (v *verifier) stopCounting(stop *api.Allocation) {
	if v.quota == nil || v.stopped[stop.ID] != nil {
		return
	}
	if a := v.tx.Alloc(stop.ID); a != nil {
		if v.stopped == nil {
			v.stopped = map[string]*api.Allocation{}
		}
		v.stopped[a.ID] = a
		v.quota.Count(a, -1)
	}
}

// resumeCounting counts an allocation again that is not stopped after all.
func (v *verifier) resumeCounting(id string) {
	if a := v.stopped[id]; a != nil {
		v.quota.Count(a, 1)
		delete(v.stopped, id)
	}
}

// overQuota is why what is left of the plan is more than the quota permits, or "": predecessors that keep running use
// what their successors were to have.
func (v *verifier) overQuota(p *api.Plan, c *checked) string {
	if v.quota == nil || len(c.refused) == 0 {
		return ""
	}
	pools := map[string]quota.Amount{}
	for _, list := range c.plan.NodeAllocation {
		for _, a := range list {
			if isNew(a) {
				with := withJob(p, a)
				pool := quota.PoolOf(with.Job)
				pools[pool] = pools[pool].Add(quota.AskOf(with.Group()), 1)
			}
		}
	}
	for pool, sum := range pools {
		v.quota.Take(pool, sum, -1)
		why := v.quota.Refusal(pool, sum)
		v.quota.Take(pool, sum, 1)
		if why != "" {
			return quota.LimitHit + why
		}
	}
	return ""
}

// closeQuota counts what the plan stops until the nodes report the end of it. Lost allocations end with the plan.
func (v *verifier) closeQuota(c *checked) {
	for _, list := range c.plan.NodeUpdate {
		for _, a := range list {
			if lostOnly(a) != "" {
				delete(v.stopped, a.ID)
			}
		}
	}
	for id := range v.stopped {
		v.resumeCounting(id)
	}
}

// assumeQuota counts what a plan places that may be in the state already.
func (v *verifier) assumeQuota(p *api.Plan) {
	if v.openQuota(p); v.quota == nil {
		return
	}
	for _, list := range p.NodeAllocation {
		for _, a := range list {
			if isNew(a) && v.tx.Alloc(a.ID) == nil {
				v.countPlaced(p, a, 1)
			}
		}
	}
}

// refusedNodes are the nodes that were refused for reasons of their own, not by a quota.
func refusedNodes(c *checked) []string {
	var nodes []string
	for node, why := range c.refused {
		if node != "" && !strings.HasPrefix(why, quota.LimitHit) {
			nodes = append(nodes, node)
		}
	}
	return nodes
}
