// Package cron finds the times that cron expressions name, and the windows of schedule blocks. It has no clock.
package cron

import (
	"fmt"
	"time"

	"github.com/hashicorp/cronexpr"
)

// lengthMax is the longest expression in bytes.
const lengthMax = 256

// Next is the first time after another that a cron expression names, in the location of after; zero when there is none.
// Local times that a change of the clocks skips are skipped, and those that come twice count twice.
func Next(cron string, after time.Time) time.Time {
	e, err := parse(cron)
	if err != nil {
		return time.Time{}
	}
	return next(e, after)
}

func next(e *cronexpr.Expression, after time.Time) time.Time {
	next := e.Next(after)
	if !next.After(after) {
		return time.Time{}
	}
	return next
}

// Check returns why a cron expression cannot be parsed, or nil.
func Check(cron string) error {
	_, err := parse(cron)
	return err
}

func parse(cron string) (*cronexpr.Expression, error) {
	if len(cron) > lengthMax {
		return nil, fmt.Errorf("has %d characters, at most %d are possible", len(cron), lengthMax)
	}
	return cronexpr.Parse(cron)
}
