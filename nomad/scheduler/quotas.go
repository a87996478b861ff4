package scheduler

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/quota"
)

// quotaRefusal is why the quota of the namespace does not permit another allocation of the group, or "".
func (p *placer) quotaRefusal() string {
	if p.run.quota == nil {
		return ""
	}
	return p.run.quota.Refusal(quota.PoolOf(p.run.job), p.amount)
}

// recordQuota records that the quota does not permit another allocation of the group; false when it does.
func (p *placer) recordQuota(m *api.AllocationMetric) bool {
	why := p.quotaRefusal()
	if why == "" {
		return false
	}
	if len(m.QuotaExhausted) == 0 {
		m.QuotaExhausted = []string{why}
	} else {
		m.CoalescedFailures++
	}
	out := p.run.out
	out.Failed[p.group.Name], out.QuotaReached = m, p.run.quota.Name
	if out.QuotaReason == "" {
		out.QuotaReason = why
	}
	return true
}
