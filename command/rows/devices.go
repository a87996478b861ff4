package rows

import (
	"fmt"
	"maps"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/view"
)

// DeviceName is the name of a group of equal devices, as a job asks for it.
func DeviceName(vendor, kind, model string) string { return vendor + "/" + kind + "/" + model }

// DeviceSummaries is a line with the most telling statistic of each device, "" if there is none.
func DeviceSummaries(groups []*api.DeviceGroupStats) string {
	var pairs [][2]string
	eachDevice(groups, func(name string, s *api.DeviceStats) {
		text := Stat(s.Summary)
		if text == "" {
			return
		}
		if s.Summary.Desc != "" {
			text += " (" + s.Summary.Desc + ")"
		}
		pairs = append(pairs, [2]string{name, text})
	})
	if pairs == nil {
		return ""
	}
	return view.Pairs(pairs...)
}

// NamedText is a block of text and its name.
type NamedText struct{ Name, Text string }

// DeviceStats are all statistics of each device.
func DeviceStats(groups []*api.DeviceGroupStats) (out []NamedText) {
	eachDevice(groups, func(name string, s *api.DeviceStats) {
		pairs := [][2]string{}
		if !s.Timestamp.IsZero() {
			pairs = append(pairs, [2]string{"Measured At", view.Time(s.Timestamp)})
		}
		s.Stats.Each(func(path string, v *api.StatValue) { pairs = append(pairs, [2]string{path, view.OrNone(Stat(v))}) })
		if len(pairs) > 0 {
			out = append(out, NamedText{name, view.Pairs(pairs...)})
		}
	})
	return out
}

func eachDevice(groups []*api.DeviceGroupStats, do func(name string, s *api.DeviceStats)) {
	for _, g := range groups {
		if g == nil {
			continue
		}
		for _, id := range slices.Sorted(maps.Keys(g.InstanceStats)) {
			if s := g.InstanceStats[id]; s != nil {
				do(DeviceName(g.Vendor, g.Type, g.Name)+"["+id+"]", s)
			}
		}
	}
}

// Stat is a statistic as people read it, such as "512 / 8192 MiB".
func Stat(v *api.StatValue) string {
	text := ""
	switch {
	case v == nil:
	case v.FloatNumeratorVal != nil:
		text = ratio(*v.FloatNumeratorVal, v.FloatDenominatorVal)
	case v.IntNumeratorVal != nil:
		text = ratio(*v.IntNumeratorVal, v.IntDenominatorVal)
	case v.StringVal != nil:
		text = *v.StringVal
	case v.BoolVal != nil:
		text = fmt.Sprint(*v.BoolVal)
	}
	if text == "" || v.Unit == "" {
		return text
	}
	return text + " " + v.Unit
}

func ratio[T int64 | float64](n T, of *T) string {
	if of == nil {
		return fmt.Sprint(n)
	}
	return fmt.Sprint(n) + " / " + fmt.Sprint(*of)
}
