package quotas

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/ids"
	"github.com/open-nomad/open-nomad/internal/lazy"
	"github.com/open-nomad/open-nomad/nomad/scheduler/quota"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Bounds of specifications.
const (
	descriptionMax = 256
	poolsMax       = 256
	devicesMax     = 1 << 30
)

var validName = lazy.Regexp(`^[a-zA-Z0-9-]{1,128}$`)

// check collects what is wrong with a quota.
type check struct{ errs []error }

func (c *check) wrong(bad bool, format string, args ...any) {
	if bad {
		c.errs = append(c.errs, fmt.Errorf(format, args...))
	}
}

// checked is the quota as it is stored, for servers of the region.
func checked(tx *state.Txn, in *api.QuotaSpec, region string) (*api.QuotaSpec, error) {
	q := &api.QuotaSpec{Name: in.Name, Description: in.Description}
	c := &check{}
	c.wrong(!validName().MatchString(q.Name), "invalid name %q: a quota's has 1 to 128 letters, digits and dashes", q.Name)
	c.wrong(len(q.Description) > descriptionMax, "description of the quota is longer than %d characters", descriptionMax)
	if err := ids.CheckText("description of the quota", q.Description); err != nil {
		c.errs = append(c.errs, err)
	}
	c.wrong(len(in.Limits) > 1, "%d limits were given, and this cluster has one region: give one limit, of region %q", len(in.Limits), region)
	for _, l := range in.Limits {
		if l == nil {
			l = &api.QuotaLimit{}
		}
		next := *l
		next.Region, next.Hash = cmp.Or(l.Region, region), nil
		c.wrong(next.Region != region, "limit of region %q: these servers are of region %q; create the quota in the other region with the limit of that region",
			next.Region, region)
		c.wrong(l.VariablesLimit != nil && *l.VariablesLimit != 0 && *l.VariablesLimit != quota.VariablesLimit(l),
			"variables_limit and storage: variables are two limits of the same: remove variables_limit")
		c.resources(tx, l.RegionLimit)
		next.Hash = hashOf(&next)
		q.Limits = append(q.Limits, &next)
	}
	if len(c.errs) > 0 {
		return nil, fault.Wrap(fault.Invalid, fmt.Errorf("quota %q: %w", q.Name, errors.Join(c.errs...)))
	}
	return q, nil
}

func (c *check) resources(tx *state.Txn, r *api.QuotaResources) {
	if r == nil {
		return
	}
	c.rest("region_limit", r.Devices, r.NUMA)
	c.wrong(len(r.NodePools) > poolsMax, "%d limits of node pools, at most %d are possible", len(r.NodePools), poolsMax)
	known := map[string]bool{}
	for _, p := range r.NodePools {
		if p == nil {
			c.wrong(true, "a limit of a node pool is null")
			continue
		}
		where := fmt.Sprintf("node_pool %q", p.NodePool)
		c.wrong(tx.NodePool(p.NodePool) == nil, "%s does not exist: create the node pool first", where)
		c.wrong(known[p.NodePool], "%s is limited twice", where)
		known[p.NodePool] = true
		c.rest(where, p.Devices, p.NUMA)
		c.wrong(p.Storage != nil && *p.Storage != api.QuotaStorageResources{}, "%s: storage is limited for the region only: move it to region_limit", where)
	}
}

// rest checks the limits of devices, and refuses a limit that nothing enforces.
func (c *check) rest(where string, devices []*api.RequestedDevice, numa *api.NUMAResource) {
	names := map[string]bool{}
	for _, d := range devices {
		if d == nil || d.Name == "" {
			c.wrong(true, "%s: a device has no name: give it a name such as nvidia/gpu", where)
			continue
		}
		c.wrong(names[d.Name], "%s: device %q is limited twice", where, d.Name)
		c.wrong(d.Count > devicesMax, "%s: device %q: the count %d is greater than %d", where, d.Name, d.Count, devicesMax)
		c.wrong(len(d.Constraints)+len(d.Affinities) > 0, "%s: device %q: a limit has no constraints and no affinities: remove them", where, d.Name)
		names[d.Name] = true
	}
	c.wrong(numa != nil, "%s: numa is not enforced by this version: remove it", where)
}

// hashOf identifies a limit in a usage.
func hashOf(l *api.QuotaLimit) []byte {
	text, err := json.Marshal(l)
	if err != nil {
		panic(err) // plain data
	}
	sum := sha256.Sum256(text)
	return sum[:16]
}
