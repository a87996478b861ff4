package quota

import (
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

// Device is a number of devices of a name: type, vendor/type or vendor/type/model.
type Device struct {
	Name  string
	Count int64
}

// devicesOf is what a task requests; a request without a number is for one device.
func devicesOf(requests []*api.RequestedDevice) (all []Device) {
	for _, r := range requests {
		if r != nil {
			all = append(all, Device{r.Name, int64(max(r.Count, 1))})
		}
	}
	return all
}

// limitedDevices are the limits of devices; 0 is no limit.
func limitedDevices(limits []*api.RequestedDevice) (all []Device) {
	for _, r := range limits {
		if r != nil && r.Count > 0 {
			all = append(all, Device{r.Name, int64(r.Count)})
		}
	}
	return all
}

// addDevices is a copy of the devices with n times the others; without others it is the devices.
func addDevices(a, b []Device, n int64) []Device {
	if len(b) == 0 {
		return a
	}
	a = slices.Clone(a)
	for _, d := range b {
		i := slices.IndexFunc(a, func(known Device) bool { return known.Name == d.Name })
		if i < 0 {
			i, a = len(a), append(a, Device{Name: d.Name})
		}
		a[i].Count += n * d.Count
	}
	return a
}

// Towards is how many of the devices count towards the limits, in the order of those.
func (a Amount) Towards(limits []*api.RequestedDevice) (all []*api.RequestedDevice) {
	for _, r := range limits {
		all = append(all, &api.RequestedDevice{Name: r.Name, Count: uint64(matching(a.Devices, Device{Name: r.Name}))}) //nolint:gosec // a count
	}
	return all
}

// matching is how many of the devices may be what a limit is about. A request for any gpu counts towards the limit of each
// vendor's: which one the allocation gets is known only later.
func matching(all []Device, limit Device) (n int64) {
	vendor, kind, model := parts(limit.Name)
	for _, d := range all {
		v, k, m := parts(d.Name)
		if k == kind && (v == vendor || v == "" || vendor == "") && (m == model || m == "" || model == "") {
			n += d.Count
		}
	}
	return n
}

func parts(name string) (vendor, kind, model string) {
	vendor, rest, two := strings.Cut(name, "/")
	if !two {
		return "", name, ""
	}
	kind, model, _ = strings.Cut(rest, "/")
	return vendor, kind, model
}
