// Package cpulist reads and writes lists of processor cores in the form of the kernel, such as "0-3,6".
package cpulist

import (
	"slices"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/api/fault"
)

// coresMax bounds the numbers of cores.
const coresMax = 1 << 14

// Parse reads a list of cores such as "0-3,6"; the empty list is none.
func Parse(list string) ([]uint16, error) {
	var ids []uint16
	if strings.TrimSpace(list) == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		low, err := strconv.ParseUint(strings.TrimSpace(first), 10, 16)
		high := low
		if err == nil && isRange {
			high, err = strconv.ParseUint(strings.TrimSpace(last), 10, 16)
		}
		if err != nil || high < low || high >= coresMax {
			return nil, fault.New(fault.Invalid, "%q is no list of cores: want numbers and ranges such as 0-3,6", list)
		}
		for id := low; id <= high; id++ {
			ids = append(ids, uint16(id))
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// Format writes a list of cores in the way that Parse and the kernel read it.
func Format(ids []uint16) string {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	var parts []string
	for i := 0; i < len(ids); {
		last := i
		for last+1 < len(ids) && ids[last+1] == ids[last]+1 {
			last++
		}
		text := strconv.Itoa(int(ids[i]))
		if last > i {
			text += "-" + strconv.Itoa(int(ids[last]))
		}
		parts, i = append(parts, text), last+1
	}
	return strings.Join(parts, ",")
}
