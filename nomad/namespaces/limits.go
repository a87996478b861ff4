package namespaces

import (
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// listMax bounds the lists of what jobs of a namespace may use.
const listMax = 256

// capabilityErrors lists what is wrong with the drivers and network modes that the namespace enables and disables.
func capabilityErrors(n *api.Namespace) (errs []error) {
	c := n.Capabilities
	if c == nil {
		return nil
	}
	for _, l := range []struct {
		what              string
		enabled, disabled []string
		known             func(string) bool
	}{
		{"task driver", c.EnabledTaskDrivers, c.DisabledTaskDrivers, func(s string) bool { return named(s, true) }},
		{"network mode", c.EnabledNetworkModes, c.DisabledNetworkModes, func(s string) bool {
			name, cni := strings.CutPrefix(s, "cni/")
			return s == "host" || s == "bridge" || s == "none" || cni && named(name, true)
		}},
	} {
		if len(l.enabled)+len(l.disabled) > listMax {
			errs = append(errs, fmt.Errorf("capabilities of namespace %q list more than %d %ss", n.Name, listMax, l.what))
			continue
		}
		for _, name := range slices.Concat(l.enabled, l.disabled) {
			if !l.known(name) {
				errs = append(errs, fmt.Errorf("capabilities of namespace %q: %q is no %s", n.Name, name, l.what))
			}
		}
		for _, name := range l.enabled {
			if slices.Contains(l.disabled, name) {
				errs = append(errs, fmt.Errorf("capabilities of namespace %q: %s %q is enabled and disabled", n.Name, l.what, name))
			}
		}
	}
	return errs
}

// poolErrors lists what is wrong with the node pools of the namespace.
func poolErrors(tx *state.Txn, n *api.Namespace) (errs []error) {
	c := n.NodePoolConfiguration
	if c == nil {
		return nil
	}
	wrong := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("node_pool_config of namespace %q: %w", n.Name, fmt.Errorf(format, args...)))
	}
	if len(c.Allowed) > 0 && len(c.Denied) > 0 {
		wrong("allowed and denied exclude each other: use one of them")
	}
	if len(c.Allowed)+len(c.Denied) > listMax {
		wrong("more than %d node pools are listed", listMax)
		return errs
	}
	if c.Default != "" && tx.NodePool(c.Default) == nil {
		wrong("default node pool %q does not exist", c.Default)
	}
	for _, name := range slices.Concat(c.Allowed, c.Denied) {
		switch glob := strings.Contains(name, "*"); {
		case glob && strings.Trim(name, "*") != "" && !named(strings.ReplaceAll(name, "*", ""), true):
			wrong("%q matches no possible name of a node pool", name)
		case !glob && tx.NodePool(name) == nil:
			wrong("node pool %q does not exist", name)
		}
	}
	if c.Default != "" && slices.ContainsFunc(c.Denied, func(glob string) bool { return feasible.Glob(glob, c.Default) }) {
		wrong("default node pool %q is denied", c.Default)
	}
	return errs
}
