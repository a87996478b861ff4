package cron_test

import (
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/jobspec/cron"
)

func TestWindow(t *testing.T) {
	t.Parallel()
	const never = ""
	for _, c := range []struct {
		start, end, zone, now string
		open                  bool
		until                 string
	}{
		{"30 9 * * MON-FRI *", "0 17", "UTC", "2026-11-27T09:29:59Z", false, "2026-11-27T09:30:00Z"},
		{"30 9 * * MON-FRI *", "0 17", "UTC", "2026-11-27T09:30:00Z", true, "2026-11-27T17:00:00Z"},
		{"30 9 * * MON-FRI *", "0 17", "UTC", "2026-11-27T16:59:59Z", true, "2026-11-27T17:00:00Z"},
		{"30 9 * * MON-FRI *", "0 17", "UTC", "2026-11-27T17:00:00Z", false, "2026-11-30T09:30:00Z"},
		// over midnight
		{"0 22 * * * *", "0 6", "UTC", "2026-11-27T23:00:00Z", true, "2026-11-28T06:00:00Z"},
		{"0 22 * * * *", "0 6", "UTC", "2026-11-28T05:59:00Z", true, "2026-11-28T06:00:00Z"},
		{"0 22 * * * *", "0 6", "UTC", "2026-11-28T06:00:00Z", false, "2026-11-28T22:00:00Z"},
		// a window that begins when another ends has no gap
		{"0 6 * * * *", "0 6", "UTC", "2026-11-28T06:00:00Z", true, "2026-11-29T06:00:00Z"},
		// the time zone counts
		{"0 9 * * * *", "0 17", "America/New_York", "2026-11-27T14:00:00Z", true, "2026-11-27T22:00:00Z"},
		{"0 9 * * * *", "0 17", "America/New_York", "2026-11-27T13:59:00Z", false, "2026-11-27T14:00:00Z"},
		// an end that the change of the clocks skips comes all the same
		{"0 1 * * * *", "30 2", "America/New_York", "2026-03-08T06:00:00Z", true, "2026-03-08T06:30:00Z"},
		{"0 1 * * * *", "30 2", "America/New_York", "2026-03-08T06:30:00Z", false, "2026-03-09T05:00:00Z"},
		// years pass
		{"0 9 1 1 * 2020", "0 17", "UTC", "2026-11-27T10:00:00Z", false, never},
		{"0 9 1 1 * 2030", "0 17", "UTC", "2026-11-27T10:00:00Z", false, "2030-01-01T09:00:00Z"},
	} {
		w, err := cron.NewWindow(&api.TaskScheduleCron{Start: c.start, End: c.end, Timezone: c.zone})
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		now, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		open, until := w.At(now)
		got := never
		if !until.IsZero() {
			got = until.UTC().Format(time.RFC3339)
		}
		if open != c.open || got != c.until {
			t.Errorf("%s to %s %s at %s: open %v until %q, want %v until %q", c.start, c.end, c.zone, c.now, open, got, c.open, c.until)
		}
	}
}

func TestWindowsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		start, end, zone, want string
	}{
		{"30 9 * * *", "0 17", "", "start has 5 fields, not 6"},
		{"*/5 9 * * * *", "0 17", "", "contains / or ,"},
		{"0 9,10 * * * *", "0 17", "", "contains / or ,"},
		{"99 9 * * * *", "0 17", "", "start: "},
		{"0 9 * * * " + strings.Repeat("1", 300), "0 17", "", "at most 256"},
		{"0 9 * * * *", "17", "", "end has 1 fields, not 2"},
		{"0 9 * * * *", "0 24", "", `end: "24" is no number from 0 to 23`},
		{"0 9 * * * *", "* 10", "", `end: "*" is no number`},
		{"0 9 * * * *", "0 10", "Nowhere/Town", `timezone "Nowhere/Town" is not known`},
		{"0 9 * * * *", "0 10", "../../etc/passwd", "is not known"},
	} {
		if _, err := cron.NewWindow(&api.TaskScheduleCron{Start: c.start, End: c.end, Timezone: c.zone}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q %q %q: %v, want %q", c.start, c.end, c.zone, err, c.want)
		}
	}
}

func FuzzWindow(f *testing.F) {
	f.Add("30 9 * * MON-FRI *", "0 17", "UTC", int64(1_700_000_000))
	f.Fuzz(func(t *testing.T, start, end, zone string, now int64) {
		w, err := cron.NewWindow(&api.TaskScheduleCron{Start: start, End: end, Timezone: zone})
		if err != nil {
			return
		}
		at := time.Unix(now%(1<<33), 0)
		if _, until := w.At(at); !until.IsZero() && !until.After(at) {
			t.Errorf("%q %q %q at %v: changes at %v", start, end, zone, at, until)
		}
	})
}
