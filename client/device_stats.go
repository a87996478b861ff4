package client

import (
	"maps"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/metrics"
)

// deviceMeter reports the last measurements of the given devices of this node.
type deviceMeter interface {
	StatsOf([]*api.AllocatedDeviceResource) []*api.DeviceGroupStats
}

// addDeviceUsage completes the use of an allocation by what its devices report, for each task and for all together.
func addDeviceUsage(m deviceMeter, a *api.Allocation, used *api.AllocResourceUsage) {
	if a.AllocatedResources == nil {
		return
	}
	for _, task := range slices.Sorted(maps.Keys(used.Tasks)) {
		r := a.AllocatedResources.Tasks[task]
		if r == nil || len(r.Devices) == 0 {
			continue
		}
		// The driver may hand out the same struct again, so it is copied.
		one, usage := *used.Tasks[task], api.ResourceUsage{}
		if one.ResourceUsage != nil {
			usage = *one.ResourceUsage
		}
		usage.DeviceStats = m.StatsOf(r.Devices)
		one.ResourceUsage, used.Tasks[task] = &usage, &one
		if used.ResourceUsage != nil {
			used.ResourceUsage.DeviceStats = append(used.ResourceUsage.DeviceStats, usage.DeviceStats...)
		}
	}
}

// deviceValuesMax limits the metrics of the devices of one node: a plugin may report any number of values.
const deviceValuesMax = 1000

// deviceValues are the metrics of devices. Texts are no metrics.
func deviceValues(groups []*api.DeviceGroupStats, base []metrics.Label) (out []value) {
	for _, g := range groups {
		if g == nil {
			continue
		}
		for _, id := range slices.Sorted(maps.Keys(g.InstanceStats)) {
			s := g.InstanceStats[id]
			if s == nil {
				continue
			}
			of := slices.Concat(base, []metrics.Label{
				label("device_vendor", g.Vendor), label("device_type", g.Type), label("device_name", g.Name), label("device_id", id),
			})
			if v, _, ok := number(s.Summary); ok {
				out = append(out, value{"client.devices.summary", v, of})
			}
			s.Stats.Each(func(path string, stat *api.StatValue) {
				v, limit, ok := number(stat)
				if !ok {
					return
				}
				labels := append(of[:len(of):len(of)], label("stat", path), label("unit", stat.Unit))
				out = append(out, value{"client.devices.value", v, labels})
				if limit != nil {
					out = append(out, value{"client.devices.limit", *limit, labels})
				}
			})
		}
	}
	return out[:min(len(out), deviceValuesMax)]
}

// number is a statistic as a number, and what it is out of, if that is known.
func number(v *api.StatValue) (n float64, limit *float64, ok bool) {
	switch {
	case v == nil:
		return 0, nil, false
	case v.FloatNumeratorVal != nil:
		return *v.FloatNumeratorVal, v.FloatDenominatorVal, true
	case v.IntNumeratorVal != nil:
		if v.IntDenominatorVal != nil {
			limit = new(float64(*v.IntDenominatorVal))
		}
		return float64(*v.IntNumeratorVal), limit, true
	case v.BoolVal != nil && *v.BoolVal:
		return 1, nil, true
	case v.BoolVal != nil:
		return 0, nil, true
	}
	return 0, nil, false
}
