package rules

import (
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/jobspec/cron"
)

// Crons are the expressions by which a job is launched.
func Crons(p *api.PeriodicConfig) []string {
	specs := slices.Clone(p.Specs)
	if p.Spec != "" {
		specs = append(specs, p.Spec)
	}
	return specs
}

// NextLaunch is the first time after another at which a periodic job is launched, in the location of
// after; zero when never.
func NextLaunch(p *api.PeriodicConfig, after time.Time) time.Time {
	var first time.Time
	if !p.Enabled {
		return first
	}
	for _, s := range Crons(p) {
		if next := cron.Next(s, after); !next.IsZero() && (first.IsZero() || next.Before(first)) {
			first = next
		}
	}
	return first
}
