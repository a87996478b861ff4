package volumespec

import (
	"math"
	"strconv"
	"strings"
)

// units of capacities, in lower case. One letter is the decimal unit.
var units = map[string]float64{
	"": 1, "b": 1,
	"k": 1e3, "kb": 1e3, "ki": 1 << 10, "kib": 1 << 10,
	"m": 1e6, "mb": 1e6, "mi": 1 << 20, "mib": 1 << 20,
	"g": 1e9, "gb": 1e9, "gi": 1 << 30, "gib": 1 << 30,
	"t": 1e12, "tb": 1e12, "ti": 1 << 40, "tib": 1 << 40,
	"p": 1e15, "pb": 1e15, "pi": 1 << 50, "pib": 1 << 50,
	"e": 1e18, "eb": 1e18, "ei": 1 << 60, "eib": 1 << 60,
}

// Bytes reads a capacity such as "10GiB", "1.5 TB" or "1048576"; empty is 0. It reports whether the text is a capacity.
func Bytes(s string) (int64, bool) {
	s = strings.TrimSpace(s)
	if s == "" {
		return 0, true
	}
	end := strings.IndexFunc(s, func(r rune) bool { return (r < '0' || r > '9') && r != '.' && r != ',' })
	if end < 0 {
		end = len(s)
	}
	unit, known := units[strings.ToLower(strings.TrimSpace(s[end:]))]
	digits := strings.ReplaceAll(s[:end], ",", "")
	if whole, err := strconv.ParseInt(digits, 10, 64); err == nil && known && unit == 1 {
		return whole, true
	}
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || !known || n*unit >= math.MaxInt64 {
		return 0, false
	}
	return int64(n * unit), true
}
