package view

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// shortID is how many characters of an id are shown unless all are asked for.
const shortID = 8

// ID shortens an id, unless long is set.
func ID(id string, long bool) string {
	if long || len(id) <= shortID {
		return id
	}
	return id[:shortID]
}

// Time is a local time with seconds, or N/A for none.
func Time(t time.Time) string {
	if t.IsZero() || t.UnixNano() == 0 {
		return "N/A"
	}
	return t.Local().Format(time.RFC3339)
}

// UnixTime is the Time of Unix nanoseconds; 0 is none.
func UnixTime(ns int64) string {
	if ns == 0 {
		return "N/A"
	}
	return Time(time.Unix(0, ns))
}

// Ago is the age of a moment in its two largest units: "1h3m ago".
func Ago(ns int64, now time.Time) string {
	if ns == 0 {
		return "N/A"
	}
	d := now.Sub(time.Unix(0, ns))
	if d < 0 {
		return "in " + span(-d)
	}
	return span(d) + " ago"
}

// Until is the time that is left, or "due" when there is none.
func Until(ns int64, now time.Time) string {
	if d := time.Unix(0, ns).Sub(now); d > 0 {
		return "in " + span(d)
	}
	return "due"
}

var units = []struct {
	name string
	size time.Duration
}{
	{"y", 365 * 24 * time.Hour},
	{"mo", 30 * 24 * time.Hour},
	{"d", 24 * time.Hour},
	{"h", time.Hour},
	{"m", time.Minute},
	{"s", time.Second},
}

func span(d time.Duration) string {
	d = d.Truncate(time.Second)
	var b strings.Builder
	for i, u := range units {
		if d < u.size {
			continue
		}
		fmt.Fprintf(&b, "%d%s", d/u.size, u.name)
		if i+1 < len(units) {
			if next := units[i+1]; d%u.size >= next.size {
				fmt.Fprintf(&b, "%d%s", d%u.size/next.size, next.name)
			}
		}
		return b.String()
	}
	return "0s"
}

// When is an age in lists and a time when all is asked for.
func When(ns int64, long bool, now time.Time) string {
	if long {
		return UnixTime(ns)
	}
	return Ago(ns, now)
}

var sizes = []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}

// Bytes is a size in the largest unit that leaves a number of at least one, with two digits.
func Bytes(n int64) string {
	if n < 1024 {
		return strconv.FormatInt(n, 10) + " B"
	}
	f, i := float64(n), 0
	for f >= 1024 && i < len(sizes)-1 {
		f /= 1024
		i++
	}
	if f < 10 {
		return fmt.Sprintf("%.1f %s", math.Round(f*10)/10, sizes[i])
	}
	return fmt.Sprintf("%.0f %s", f, sizes[i])
}

// Map is "k=v, k=v" in the order of keys.
func Map(m map[string]string, between string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, k+"="+m[k])
	}
	return strings.Join(parts, between)
}
