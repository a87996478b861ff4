package namespaces_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func TestLimitsOfNamespacesAreChecked(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.given(func(tx *state.Txn) { tx.PutNodePool(&api.NodePool{Name: "gpu"}) })
	pools := func(fallback string, allowed, denied []string) *api.Namespace {
		return &api.Namespace{Name: "n", NodePoolConfiguration: &api.NamespaceNodePoolConfiguration{Default: fallback, Allowed: allowed, Denied: denied}}
	}
	capable := func(c api.NamespaceCapabilities) *api.Namespace { return &api.Namespace{Name: "n", Capabilities: &c} }
	for words, n := range map[string]*api.Namespace{
		"allowed and denied exclude each other":                     pools("", []string{"gpu"}, []string{"a*"}),
		`default node pool "none" does not exist`:                   pools("none", nil, nil),
		`node pool "none" does not exist`:                           pools("", []string{"gpu", "none"}, nil),
		`"a b*" matches no possible name`:                           pools("", nil, []string{"a b*"}),
		`default node pool "gpu" is denied`:                         pools("gpu", nil, []string{"g*"}),
		`"no driver" is no task driver`:                             capable(api.NamespaceCapabilities{EnabledTaskDrivers: []string{"no driver"}}),
		`task driver "exec" is enabled and disabled`:                capable(api.NamespaceCapabilities{EnabledTaskDrivers: []string{"exec"}, DisabledTaskDrivers: []string{"exec"}}),
		`"wifi" is no network mode`:                                 capable(api.NamespaceCapabilities{DisabledNetworkModes: []string{"wifi"}}),
		`list more than 256 network modes`:                          capable(api.NamespaceCapabilities{DisabledNetworkModes: make([]string, 257)}),
		"limits Vault or Consul clusters":                           {Name: "n", VaultConfiguration: &api.NamespaceVaultConfiguration{Allowed: []string{"x"}}},
		`required extra claims of namespace "n": extra claim "sub"`: {Name: "n", RequiredExtraClaims: map[string]string{"sub": "v"}},
		`"${x}" is unknown`:                                         {Name: "n", OptionalExtraClaims: map[string]string{"k": "${x}"}},
		`quota "none" of namespace "n" does not exist: `:            {Name: "n", Quota: "none"},
	} {
		refused(t, r.upsert(n), fault.Invalid, words)
	}
	good := pools("gpu", []string{"*", "gpu", "a-*"}, nil)
	good.Capabilities = &api.NamespaceCapabilities{EnabledTaskDrivers: []string{"raw_exec"}, DisabledNetworkModes: []string{"bridge", "cni/x", "none"}}
	good.RequiredExtraClaims, good.OptionalExtraClaims = map[string]string{"team": "red"}, map[string]string{"where": "${node.name}"}
	if err := r.upsert(good); err != nil {
		t.Error(err)
	}
}
