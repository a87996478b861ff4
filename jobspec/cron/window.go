package cron

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/cronexpr"

	"github.com/open-nomad/open-nomad/api"
)

// Window is when a task with a schedule block runs: from each time that start names until the next time of day that end
// names.
type Window struct {
	start        *cronexpr.Expression
	hour, minute int
	zone         *time.Location
}

// startFields are minute, hour, day of the month, month, day of the week and year.
const startFields = 6

// NewWindow reads a schedule. An empty time zone is that of the node.
func NewWindow(c *api.TaskScheduleCron) (*Window, error) {
	if n := len(strings.Fields(c.Start)); n != startFields {
		return nil, fmt.Errorf("start has %d fields, not 6: minute, hour, day of the month, month, day of the week, year, such as \"30 9 * * MON-FRI *\"", n)
	}
	if len(c.Start) <= lengthMax && strings.ContainsAny(c.Start, "/,") {
		return nil, fmt.Errorf("start %q contains / or ,: they are not possible in a schedule", c.Start)
	}
	w := &Window{}
	var err error
	if w.start, err = parse(c.Start); err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	end := strings.Fields(c.End)
	if len(end) != 2 {
		return nil, fmt.Errorf("end has %d fields, not 2: minute and hour, such as \"0 17\"", len(end))
	}
	if w.minute, err = number(end[0], 59); err == nil {
		w.hour, err = number(end[1], 23)
	}
	if err != nil {
		return nil, fmt.Errorf("end: %w", err)
	}
	zone := c.Timezone
	if zone == "" {
		zone = "Local"
	}
	if w.zone, err = time.LoadLocation(zone); err != nil {
		return nil, fmt.Errorf("timezone %.40q is not known", c.Timezone)
	}
	return w, nil
}

func number(text string, limit int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > limit {
		return 0, fmt.Errorf("%.20q is no number from 0 to %d", text, limit)
	}
	return n, nil
}

// At reports whether the window is open at a time, and when that changes next; zero when never.
func (w *Window) At(now time.Time) (open bool, until time.Time) {
	now = now.In(w.zone)
	// A window that is open began at the last end or after it: each end closes what is open.
	last := w.end(now, 0)
	for day := -1; last.After(now); day-- {
		last = w.end(now, day)
	}
	start := next(w.start, last.Add(-time.Second))
	if start.IsZero() || start.After(now) {
		return false, start
	}
	until = w.end(now, 0)
	for day := 1; !until.After(now); day++ {
		until = w.end(now, day)
	}
	return true, until
}

// end is the end of a day; one that a change of the clocks skips comes before or after the change.
func (w *Window) end(now time.Time, day int) time.Time {
	return time.Date(now.Year(), now.Month(), now.Day()+day, w.hour, w.minute, 0, 0, w.zone)
}
