package rows

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/view"
)

// amounts are the limits of a quota by resource, and what is used of them.
type amounts struct{ limit, used *api.QuotaResources }

// columns are the resources of a quota. Those that are not always shown appear when a limit or a usage has them.
var columns = []struct {
	name   string
	always bool
	of     func(*api.QuotaResources) int
}{
	{"CPU Usage", true, func(r *api.QuotaResources) int { return number(r.CPU) }},
	{"Core Usage", true, func(r *api.QuotaResources) int { return number(r.Cores) }},
	{"Memory Usage", true, func(r *api.QuotaResources) int { return number(r.MemoryMB) }},
	{"Memory Max Usage", true, func(r *api.QuotaResources) int { return number(r.MemoryMaxMB) }},
	{"Variables Usage", true, func(r *api.QuotaResources) int { return storage(r).VariablesMB }},
	{"Secrets Usage", false, func(r *api.QuotaResources) int { return number(r.SecretsMB) }},
	{"Host Volumes Usage", false, func(r *api.QuotaResources) int { return storage(r).HostVolumesMB }},
	{"Volumes", false, func(r *api.QuotaResources) int { return storage(r).Volumes }},
	{"Volumes Capacity", false, func(r *api.QuotaResources) int { return storage(r).VolumesMB }},
}

func number(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

func storage(r *api.QuotaResources) api.QuotaStorageResources {
	if r.Storage == nil {
		return api.QuotaStorageResources{}
	}
	return *r.Storage
}

// usage is "used / limit". A limit of 0 is none, and a negative one permits nothing.
func usage(used, limit int) string {
	switch {
	case limit == 0:
		return strconv.Itoa(used) + " / inf"
	case limit < 0:
		limit = 0
	}
	return fmt.Sprintf("%d / %d", used, limit)
}

// QuotaUsage is the tables of a quota's limits and of what is used of them. The usage may be nil.
func QuotaUsage(q *api.QuotaSpec, u *api.QuotaUsage) string {
	var regions, pools [][2]string
	var perRegion, perPool []amounts
	devices := [][]string{{"Region", "Device", "Usage"}}
	for _, l := range q.Limits {
		a := amounts{resources(l), usedIn(u, l.Region)}
		regions, perRegion = append(regions, [2]string{l.Region}), append(perRegion, a)
		for _, p := range a.limit.NodePools {
			pools = append(pools, [2]string{l.Region, p.NodePool})
			perPool = append(perPool, amounts{ofPool(p), usedInPool(a.used, p.NodePool)})
		}
		for _, d := range a.limit.Devices {
			devices = append(devices, []string{l.Region, d.Name, usage(deviceCount(a.used, d.Name), int(min(d.Count, 1<<31)))})
		}
	}
	if len(regions) == 0 {
		return "\nQuota Limits\nNo quota limits\n"
	}
	out := "\nQuota Limits\n" + view.Table(quotaTable([]string{"Region"}, regions, perRegion)...)
	if len(pools) > 0 {
		out += "\nNode Pool Limits\n" + view.Table(quotaTable([]string{"Region", "Node Pool"}, pools, perPool)...)
	}
	if len(devices) > 1 {
		out += "\nDevice Limits\n" + view.Table(devices...)
	}
	return out
}

func quotaTable(heading []string, names [][2]string, all []amounts) [][]string {
	table := [][]string{heading}
	for _, n := range names {
		table = append(table, n[:len(heading):len(heading)])
	}
	for _, c := range columns {
		shown := c.always
		for _, a := range all {
			shown = shown || c.of(a.limit) != 0 || c.of(a.used) != 0
		}
		if !shown {
			continue
		}
		table[0] = append(table[0], c.name)
		for i, a := range all {
			table[i+1] = append(table[i+1], usage(c.of(a.used), c.of(a.limit)))
		}
	}
	return table
}

// resources are the amounts of a limit. The limit of variables is part of them or stands next to them.
func resources(l *api.QuotaLimit) *api.QuotaResources {
	r := *cmp.Or(l.RegionLimit, &api.QuotaResources{})
	held := storage(&r)
	held.VariablesMB = cmp.Or(held.VariablesMB, number(l.VariablesLimit))
	r.Storage = &held
	return &r
}

// usedIn is what is used in a region.
func usedIn(u *api.QuotaUsage, region string) *api.QuotaResources {
	if u != nil {
		for _, l := range u.Used {
			if l.Region == region {
				return resources(l)
			}
		}
	}
	return &api.QuotaResources{}
}

func ofPool(p *api.NodePoolLimit) *api.QuotaResources {
	return &api.QuotaResources{CPU: p.CPU, Cores: p.Cores, MemoryMB: p.MemoryMB, MemoryMaxMB: p.MemoryMaxMB, Devices: p.Devices, SecretsMB: p.SecretsMB, Storage: p.Storage}
}

func usedInPool(used *api.QuotaResources, name string) *api.QuotaResources {
	for _, p := range used.NodePools {
		if p.NodePool == name {
			return ofPool(p)
		}
	}
	return &api.QuotaResources{}
}

func deviceCount(used *api.QuotaResources, name string) int {
	for _, d := range used.Devices {
		if d.Name == name {
			return int(min(d.Count, 1<<31))
		}
	}
	return 0
}
