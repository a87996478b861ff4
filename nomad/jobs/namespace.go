package jobs

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
)

// namespaceErrors lists what the job uses that its namespace does not permit. The namespace may be nil.
func namespaceErrors(n *api.Namespace, j *api.Job) (errs []error) {
	if n == nil {
		return nil
	}
	refuse := func(what, value, where, why string) {
		errs = append(errs, fmt.Errorf("namespace %q does not permit %s %q%s: %s", n.Name, what, value, where, why))
	}
	for _, g := range j.TaskGroups {
		for _, t := range g.Tasks {
			for _, id := range append(slices.Clone(t.Identities), t.Identity) {
				for _, claim := range claimsOf(id) {
					_, optional := n.OptionalExtraClaims[claim]
					if _, required := n.RequiredExtraClaims[claim]; !optional && !required {
						refuse("extra claim", claim, fmt.Sprintf(" of identity %q of task %q of group %q", id.Name, t.Name, g.Name),
							"it permits "+cmp.Or(strings.Join(slices.Sorted(maps.Keys(n.OptionalExtraClaims)), ", "), "none"))
					}
				}
			}
		}
	}
	if c := n.Capabilities; c != nil {
		for _, g := range j.TaskGroups {
			for _, network := range g.Networks {
				mode := cmp.Or(network.Mode, "host")
				if why := excluded(mode, c.EnabledNetworkModes, c.DisabledNetworkModes); why != "" {
					refuse("network mode", mode, fmt.Sprintf(" of group %q", g.Name), why)
				}
			}
			for _, t := range g.Tasks {
				if why := excluded(t.Driver, c.EnabledTaskDrivers, c.DisabledTaskDrivers); why != "" {
					refuse("task driver", t.Driver, fmt.Sprintf(" of task %q of group %q", t.Name, g.Name), why)
				}
			}
		}
	}
	if c := n.NodePoolConfiguration; c != nil {
		matches := func(glob string) bool { return feasible.Glob(glob, j.NodePool) }
		standard := cmp.Or(c.Default, api.NodePoolDefault)
		switch {
		case len(c.Allowed) > 0 && j.NodePool != standard && !slices.ContainsFunc(c.Allowed, matches):
			refuse("node pool", j.NodePool, "", fmt.Sprintf("it permits %s and its default %s", strings.Join(c.Allowed, ", "), standard))
		case slices.ContainsFunc(c.Denied, matches):
			refuse("node pool", j.NodePool, "", fmt.Sprintf("it permits all but %s", strings.Join(c.Denied, ", ")))
		}
	}
	return errs
}

func claimsOf(id *api.WorkloadIdentity) []string {
	if id == nil {
		return nil
	}
	return id.ExtraClaims
}

// excluded is why lists of what is enabled and disabled do not permit a value, or "".
func excluded(value string, enabled, disabled []string) string {
	switch {
	case len(enabled) > 0 && !slices.Contains(enabled, value):
		return "it permits " + strings.Join(enabled, ", ")
	case slices.Contains(disabled, value):
		return "it permits all but " + strings.Join(disabled, ", ")
	}
	return ""
}

// withinNamespace refuses to start more of a stored job that its namespace does not permit any more. The job may be nil.
func (s *Service) withinNamespace(j *api.Job) error {
	if j == nil {
		return nil
	}
	if errs := namespaceErrors(s.State.Read().Namespace(j.Namespace), j); len(errs) > 0 {
		return fault.Wrap(fault.Invalid, fmt.Errorf("job %q: %w", j.ID, errs[0]))
	}
	return nil
}
