package rules

import (
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/jobspec/cron"
)

// cronsMax bounds the expressions of one job; each is evaluated again and again.
const cronsMax = 64

// Follows refuses a job in the place of one that is launched at times and is no longer so: it would start at once.
// The old job may be nil.
func Follows(old, j *api.Job) error {
	if old != nil && old.Periodic != nil && j.Periodic == nil {
		return fault.New(fault.Invalid, "cannot update periodic job to being non-periodic")
	}
	return nil
}

func (c *check) periodic(p *api.PeriodicConfig) {
	if p == nil {
		return
	}
	c.wrong(!ends(c.job), "periodic is for batch and sysbatch jobs, not %s", c.job.Type)
	c.wrong(c.job.ParameterizedJob != nil, "a job is periodic or parameterized, not both")
	c.wrong(p.Spec != "" && len(p.Specs) > 0, "periodic has cron and crons: only one is possible")
	specs := Crons(p)
	c.wrong(p.Enabled && len(specs) == 0, "periodic has no crons")
	c.wrong(len(specs) > cronsMax, "periodic has %d crons, at most %d are possible", len(specs), cronsMax)
	if len(specs) > cronsMax {
		return
	}
	for _, s := range specs {
		err := cron.Check(s)
		c.wrong(err != nil, "periodic cron %q: %v", brief(s), err)
	}
}

func (c *check) parameterized(p *api.ParameterizedJobConfig) {
	if p == nil {
		return
	}
	c.wrong(!ends(c.job), "parameterized is for batch and sysbatch jobs, not %s", c.job.Type)
	c.oneOf(p.Payload, []string{"optional", "required", "forbidden"}, "parameterized payload")
	optional := map[string]bool{}
	for _, key := range slices.Concat(p.MetaRequired, p.MetaOptional) {
		c.text("parameterized meta key", key)
	}
	for _, key := range p.MetaOptional {
		optional[key] = true
	}
	for _, key := range p.MetaRequired {
		c.wrong(optional[key], "parameterized meta key %q is required and optional", key)
	}
}

// preferences checks affinities and spreads; they are for jobs that choose their nodes.
func (c *check) preferences(where string, affinities []*api.Affinity, spreads []*api.Spread) {
	c.wrong(c.job.Type == api.JobTypeSystem && len(affinities) > 0, "%s: a system job runs on every node and cannot have affinities", where)
	c.wrong(everywhere(c.job) && len(spreads) > 0, "%s: a %s job runs on every node and cannot have spreads", where, c.job.Type)
	c.affinities(where, affinities)
	for _, s := range spreads {
		c.wrong(s.Attribute == "", "%s: a spread has no attribute", where)
		c.wrong(s.Weight < 1 || s.Weight > 100, "%s: spread weight %d is not between 1 and 100", where, s.Weight)
		sum, seen := 0, map[string]bool{}
		for _, t := range s.SpreadTarget {
			c.wrong(seen[t.Value], "%s: spread target %q is there twice", where, t.Value)
			seen[t.Value] = true
			sum += int(t.Percent)
		}
		c.wrong(sum > 100, "%s: spread targets of %q ask for %d percent", where, s.Attribute, sum)
	}
}

func (c *check) affinities(where string, all []*api.Affinity) {
	for _, a := range all {
		c.wrong(a.LTarget == "", "%s: an affinity has no attribute", where)
		c.wrong(a.Weight == 0 || a.Weight < -100 || a.Weight > 100, "%s: affinity weight %d is 0 or not between -100 and 100", where, a.Weight)
		c.wrong(!slices.Contains(operands, a.Operand) || strings.HasPrefix(a.Operand, "distinct_") || strings.HasPrefix(a.Operand, "is_"),
			"%s: affinity operator %q is not known", where, a.Operand)
		c.operand(where, "affinity", a.Operand, a.RTarget)
	}
}
