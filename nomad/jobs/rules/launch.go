package rules

import (
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/cronexpr"

	"github.com/open-nomad/open-nomad/api"
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
// after; zero when never. Local times that a change of the clocks skips are skipped, and those that come
// twice count twice.
func NextLaunch(p *api.PeriodicConfig, after time.Time) time.Time {
	var first time.Time
	if !p.Enabled {
		return first
	}
	for _, s := range Crons(p) {
		if next := NextTime(s, after); !next.IsZero() && (first.IsZero() || next.Before(first)) {
			first = next
		}
	}
	return first
}

// NextTime is the first time after another that a cron expression names; zero when there is none.
func NextTime(cron string, after time.Time) time.Time {
	e, err := parse(cron)
	if err != nil {
		return time.Time{}
	}
	next := e.Next(after)
	if !next.After(after) {
		return time.Time{}
	}
	return next
}

// CronError returns why a cron expression cannot be parsed, or nil.
func CronError(cron string) error {
	_, err := parse(cron)
	return err
}

func parse(cron string) (*cronexpr.Expression, error) {
	if len(cron) > cronMax {
		return nil, fmt.Errorf("has %d characters, at most %d are possible", len(cron), cronMax)
	}
	return cronexpr.Parse(cron)
}
