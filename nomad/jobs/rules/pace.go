package rules

import (
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// Bounds of the policies.
const (
	restartIntervalMin    = 5 * time.Second
	rescheduleIntervalMin = 15 * time.Second
	rescheduleDelayMin    = 5 * time.Second
)

func (c *check) restart(where string, p *api.RestartPolicy) {
	if p == nil {
		return
	}
	c.oneOf(p.Mode, []string{api.RestartPolicyModeFail, api.RestartPolicyModeDelay}, "%s: restart mode", where)
	c.wrong(p.Attempts < 0, "%s: restart attempts %d is negative", where, p.Attempts)
	c.atMost(p.Attempts, attemptsMax, "%s: restart attempts", where)
	c.wrong(p.Attempts == 0 && p.Mode == api.RestartPolicyModeDelay, "%s: restart mode delay needs attempts: with 0 it would never restart", where)
	c.wrong(p.Delay < 0, "%s: restart delay is negative", where)
	c.wrong(p.Interval < restartIntervalMin, "%s: restart interval %v is below %v", where, p.Interval, restartIntervalMin)
	c.wrong(p.Attempts > 0 && p.Interval > 0 && p.Delay > p.Interval/time.Duration(max(p.Attempts, 1)),
		"%s: %d restarts with a delay of %v do not fit into an interval of %v", where, p.Attempts, p.Delay, p.Interval)
}

func (c *check) reschedule(where string, p *api.ReschedulePolicy) {
	if p == nil {
		return
	}
	if everywhere(c.job) {
		c.wrong(p.Attempts > 0 || p.Unlimited, "%s: a %s job is not rescheduled", where, c.job.Type)
		return
	}
	if p.Attempts == 0 && !p.Unlimited {
		return
	}
	c.oneOf(p.DelayFunction, []string{"constant", "exponential", "fibonacci"}, "%s: reschedule delay_function", where)
	c.wrong(p.Delay < rescheduleDelayMin, "%s: reschedule delay %v is below %v", where, p.Delay, rescheduleDelayMin)
	c.wrong(p.Attempts < 0, "%s: reschedule attempts %d is negative", where, p.Attempts)
	if c.atMost(p.Attempts, rescheduleMax, "%s: reschedule attempts", where); p.Attempts > rescheduleMax {
		return
	}
	c.wrong(p.Attempts > 0 && p.Unlimited, "%s: reschedule has %d attempts and is unlimited", where, p.Attempts)
	c.wrong(!p.Unlimited && p.Interval < rescheduleIntervalMin, "%s: reschedule interval %v is below %v", where, p.Interval, rescheduleIntervalMin)
	if n := possible(p); p.Attempts > n && p.Interval >= rescheduleIntervalMin && p.Delay >= rescheduleDelayMin {
		c.wrong(true, "%s: reschedule asks for %d attempts, but with a delay of %v (%s) only %d fit into an interval of %v",
			where, p.Attempts, p.Delay, p.DelayFunction, n, p.Interval)
	}
	if p.DelayFunction != "constant" {
		c.wrong(p.MaxDelay < p.Delay, "%s: reschedule max_delay %v is below the delay of %v", where, p.MaxDelay, p.Delay)
	}
}

// possible is how many attempts fit into the interval of a policy, at most one more than it asks for.
func possible(p *api.ReschedulePolicy) int {
	n, before, delay, left := 0, time.Duration(0), p.Delay, p.Interval
	for n <= p.Attempts && delay > 0 && delay <= left {
		left -= delay
		n++
		next := delay
		switch p.DelayFunction {
		case "exponential":
			next = delay * 2
		case "fibonacci":
			next = before + delay
		}
		before = delay
		if delay = next; p.DelayFunction != "constant" && p.MaxDelay > 0 {
			delay = min(delay, p.MaxDelay)
		}
	}
	return n
}

func (c *check) update(where string, u *api.UpdateStrategy) {
	if u == nil {
		return
	}
	if ends(c.job) {
		c.wrong(true, "%s: update is for service and system jobs, not %s", where, c.job.Type)
		return
	}
	c.wrong(u.MaxParallel < 0, "%s: update max_parallel %d is negative", where, u.MaxParallel)
	c.wrong(u.Canary < 0, "%s: update canary %d is negative", where, u.Canary)
	c.atMost(u.MaxParallel, AllocsMax, "%s: update max_parallel", where)
	c.wrong(u.Canary > 100 && everywhere(c.job), "%s: update canary %d is a percentage of the nodes of a %s job and at most 100", where, u.Canary, c.job.Type)
	c.wrong(u.Canary == 0 && u.AutoPromote, "%s: update auto_promote needs canaries", where)
	if u.MaxParallel == 0 {
		return
	}
	c.oneOf(u.HealthCheck, []string{"checks", "task_states", "manual"}, "%s: update health_check", where)
	c.wrong(u.MinHealthyTime < 0, "%s: update min_healthy_time is negative", where)
	c.wrong(u.HealthyDeadline <= 0, "%s: update healthy_deadline must be positive", where)
	c.wrong(u.MinHealthyTime >= u.HealthyDeadline, "%s: update min_healthy_time %v is not below healthy_deadline %v", where, u.MinHealthyTime, u.HealthyDeadline)
	c.wrong(u.ProgressDeadline < 0, "%s: update progress_deadline is negative", where)
	c.wrong(u.ProgressDeadline != 0 && u.HealthyDeadline >= u.ProgressDeadline,
		"%s: update healthy_deadline %v is not below progress_deadline %v", where, u.HealthyDeadline, u.ProgressDeadline)
	c.wrong(u.Stagger < 0, "%s: update stagger is negative", where)
}

func (c *check) migrate(where string, m *api.MigrateStrategy) {
	if m == nil {
		return
	}
	if c.job.Type != api.JobTypeService {
		c.wrong(true, "%s: migrate is for service jobs, not %s", where, c.job.Type)
		return
	}
	c.oneOf(m.HealthCheck, []string{"checks", "task_states"}, "%s: migrate health_check", where)
	c.wrong(m.MaxParallel < 0, "%s: migrate max_parallel %d is negative", where, m.MaxParallel)
	c.atMost(m.MaxParallel, AllocsMax, "%s: migrate max_parallel", where)
	c.wrong(m.HealthyDeadline < 0 || m.MinHealthyTime < 0, "%s: a time of migrate is negative", where)
	c.wrong(m.MinHealthyTime > m.HealthyDeadline, "%s: migrate min_healthy_time %v is above healthy_deadline %v", where, m.MinHealthyTime, m.HealthyDeadline)
}

func (c *check) disconnect(where string, d *api.DisconnectStrategy) {
	if d == nil {
		return
	}
	c.wrong(d.LostAfter < 0, "%s: disconnect lost_after is negative", where)
	c.wrong(d.StopOnClientAfter < 0, "%s: disconnect stop_on_client_after is negative", where)
	c.wrong(d.LostAfter > 0 && d.StopOnClientAfter > 0, "%s: disconnect has lost_after and stop_on_client_after: only one is possible", where)
	c.wrong(d.StopOnClientAfter > 0 && everywhere(c.job), "%s: disconnect stop_on_client_after is for service and batch jobs", where)
	if d.Reconcile != nil {
		c.oneOf(string(*d.Reconcile), []string{
			string(api.ReconcileOptionBestScore), string(api.ReconcileOptionLongestRunning),
			string(api.ReconcileOptionKeepOriginal), string(api.ReconcileOptionKeepReplacement), "",
		}, "%s: disconnect reconcile", where)
	}
}

func (c *check) scaling(where string, g *api.TaskGroup) {
	s := g.Scaling
	if s == nil {
		return
	}
	c.wrong(everywhere(c.job), "%s: Task groups with job type %s do not support scaling blocks", where, c.job.Type)
	c.oneOf(s.Type, []string{"", "horizontal"}, "%s: scaling type", where)
	c.policyKeys(where, s)
	c.wrong(s.Min < 0, "%s: scaling min %d is negative", where, s.Min)
	c.wrong(s.Max < s.Min, "%s: scaling max %d is below min %d", where, s.Max, s.Min)
	c.wrong(int64(g.Count) < s.Min || int64(g.Count) > s.Max && s.Max >= s.Min, "%s: count %d is not between scaling min %d and max %d", where, g.Count, s.Min, s.Max)
}

func (c *check) policyKeys(where string, s *api.ScalingPolicy) {
	for _, key := range sorted(s.Policy) {
		c.text(where+": scaling policy key", key)
	}
}

// scaled refuses policies of a task that no autoscaler could use.
func (c *check) scaled(where string, all []*api.ScalingPolicy) {
	seen := map[string]bool{}
	for _, s := range all {
		c.oneOf(s.Type, []string{"vertical_cpu", "vertical_mem"}, "%s: scaling type", where)
		c.wrong(seen[s.Type], "%s: scaling %q is there twice", where, s.Type)
		c.wrong(s.Min < 0, "%s: scaling min %d is negative", where, s.Min)
		c.wrong(s.Max < s.Min, "%s: scaling max %d is below min %d", where, s.Max, s.Min)
		c.policyKeys(where, s)
		seen[s.Type] = true
	}
}
