package namespaces

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/ids"
	"github.com/open-nomad/open-nomad/nomad/identity"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Bounds of what people may write.
const (
	nameMax        = 128
	descriptionMax = 256
	// metaMax bounds the keys and values of meta in bytes: lists show them.
	metaMax = 16 << 10
)

func metaBytes(meta map[string]string) (n int) {
	for k, v := range meta {
		n += len(k) + len(v)
	}
	return n
}

func builtinPool(name string) bool { return name == api.NodePoolDefault || name == api.NodePoolAll }

// named reports whether a name has 1 to 128 letters, digits, dashes, and underscores where those
// are allowed.
func named(name string, underscore bool) bool {
	for _, r := range name {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', underscore && r == '_':
		default:
			return false
		}
	}
	return name != "" && len(name) <= nameMax
}

// shownErrors refuses control and bidirectional characters.
func shownErrors(what, description string, meta map[string]string) []error {
	errs := []error{ids.CheckText("description of the "+what, description)}
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		errs = append(errs, ids.CheckText("meta key of the "+what, key))
	}
	return errs
}

func checkNamespace(tx *state.Txn, n *api.Namespace) error {
	var errs []error
	if !named(n.Name, false) {
		errs = append(errs, fmt.Errorf("invalid name %q. A namespace's has 1 to %d letters, digits and dashes", n.Name, nameMax))
	}
	if len(n.Description) > descriptionMax {
		errs = append(errs, fmt.Errorf("description of namespace %q is longer than %d characters", n.Name, descriptionMax))
	}
	if m := metaBytes(n.Meta); m > metaMax {
		errs = append(errs, fmt.Errorf("meta of namespace %q has %d bytes, at most %d are possible", n.Name, m, metaMax))
	}
	errs = append(errs, shownErrors("namespace", n.Description, n.Meta)...)
	errs = append(errs, capabilityErrors(n)...)
	if v, c := n.VaultConfiguration, n.ConsulConfiguration; v != nil && v.Default+strings.Join(slices.Concat(v.Allowed, v.Denied), "") != "" ||
		c != nil && c.Default+strings.Join(slices.Concat(c.Allowed, c.Denied), "") != "" {
		errs = append(errs, fmt.Errorf("namespace %q limits Vault or Consul clusters, which this version does not use: remove the vault and consul blocks", n.Name))
	}
	for what, claims := range map[string]map[string]string{"required": n.RequiredExtraClaims, "optional": n.OptionalExtraClaims} {
		if err := identity.CheckExtra(claims); err != nil {
			errs = append(errs, fmt.Errorf("%s extra claims of namespace %q: %w", what, n.Name, err))
		}
	}
	errs = append(errs, poolErrors(tx, n)...)
	return fault.Wrap(fault.Invalid, errors.Join(errs...))
}

func checkPool(p *api.NodePool) error {
	var errs []error
	if !named(p.Name, true) {
		errs = append(errs, fmt.Errorf("invalid node pool name %q: 1 to %d letters, digits, dashes and underscores are needed", p.Name, nameMax))
	}
	if builtinPool(p.Name) {
		errs = append(errs, fmt.Errorf("node pool %q is built in and cannot be changed", p.Name))
	}
	if len(p.Description) > descriptionMax {
		errs = append(errs, fmt.Errorf("description of node pool %q is longer than %d characters", p.Name, descriptionMax))
	}
	if m := metaBytes(p.Meta); m > metaMax {
		errs = append(errs, fmt.Errorf("meta of node pool %q has %d bytes, at most %d are possible", p.Name, m, metaMax))
	}
	errs = append(errs, shownErrors("node pool", p.Description, p.Meta)...)
	if c := p.SchedulerConfiguration; c != nil {
		switch c.SchedulerAlgorithm {
		case "", api.SchedulerAlgorithmBinpack, api.SchedulerAlgorithmSpread:
		default:
			errs = append(errs, fmt.Errorf("node pool %q: scheduler algorithm %q is neither binpack nor spread", p.Name, c.SchedulerAlgorithm))
		}
	}
	return fault.Wrap(fault.Invalid, errors.Join(errs...))
}
