package node

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// volumesOn lists the CSI volumes that a node holds, by the names that groups of its allocations give them.
func volumesOn(ctx context.Context, s *session.Session, id string, allocs []*api.Allocation) (string, error) {
	q := rest.Query{Namespace: api.AllNamespaces, Params: map[string][]string{"node_id": {id}}}
	found, _, err := s.Volumes(ctx, q)
	if err != nil || len(found) == 0 {
		return "", err
	}
	names := groupNames(allocs)
	table := [][]string{{"ID", "Name", "Namespace", "Plugin ID", "Schedulable", "Provider", "Access Mode"}}
	for _, v := range found {
		known := names[[2]string{v.Namespace, v.ID}]
		if len(known) == 0 {
			known = []string{cmp.Or(v.Name, "<none>")} // its claim outlived the allocation
		}
		for _, name := range known {
			table = append(table, []string{
				v.ID, name, v.Namespace, v.PluginID, strconv.FormatBool(v.Schedulable), view.OrNone(v.Provider), view.OrNone(string(v.AccessMode)),
			})
		}
	}
	slices.SortStableFunc(table[1:], func(a, b []string) int { return cmp.Or(cmp.Compare(a[1], b[1]), cmp.Compare(a[0], b[0])) })
	return view.Table(table...), nil
}

// groupNames are the names by which groups know volumes, by the volume's namespace and id.
func groupNames(allocs []*api.Allocation) map[[2]string][]string {
	seen := map[[2]string]map[string]bool{}
	for _, a := range allocs {
		if a.ClientTerminal() {
			continue
		}
		for _, u := range a.VolumeUses() {
			k := [2]string{a.Namespace, u.VolumeID}
			if seen[k] == nil {
				seen[k] = map[string]bool{}
			}
			for _, name := range u.Aliases {
				seen[k][name] = true
			}
		}
	}
	out := map[[2]string][]string{}
	for k, names := range seen {
		out[k] = slices.Sorted(maps.Keys(names))
	}
	return out
}
