package policy_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/acl/policy"
)

func compile(t testing.TB, rules ...string) *policy.Rights {
	t.Helper()
	var all []policy.Named
	for i, r := range rules {
		all = append(all, policy.Named{Name: string(rune('a' + i)), Policy: parse(t, r)})
	}
	return policy.Compile(all...)
}

func TestShorthands(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		block, policy string
		on            api.RightOn
		yes, no       string
	}{
		{`namespace "x"`, "read", api.OnNamespace, readOfNamespace, "submit-job host-volume-create read-logs deny"},
		{`namespace "x"`, "write", api.OnNamespace, readOfNamespace + " " + addedByWrite, "alloc-node-exec sentinel-override host-volume-write register-job deny"},
		{`namespace "x"`, "scale", api.OnNamespace, scaleOfNamespace, "submit-job list-jobs"},
		{`namespace "x"`, "deny", api.OnNamespace, "", readOfNamespace + " deny"},
		{`node_pool "x"`, "read", api.OnNodePool, "read", "write delete"},
		{`node_pool "x"`, "write", api.OnNodePool, "read write delete", "deny"},
		{`node_pool "x"`, "deny", api.OnNodePool, "", "read"},
		{`host_volume "x"`, "read", api.OnHostVolume, "mount-readonly", "mount-readwrite"},
		{`host_volume "x"`, "write", api.OnHostVolume, "mount-readonly mount-readwrite", "read"},
		{`agent`, "read", api.OnAgent, "read", "write"},
		{`agent`, "write", api.OnAgent, "read write", ""},
		{`agent`, "deny", api.OnAgent, "", "read write"},
		{`node`, "write", api.OnNode, "read write", ""},
		{`quota`, "read", api.OnQuota, "read", "write"},
		{`plugin`, "list", api.OnPlugin, "list", "read write"},
		{`plugin`, "read", api.OnPlugin, "list read", "write"},
		{`operator`, "read", api.OnOperator, "read license-read keyring-read", "write snapshot-save keyring-rotate"},
		{`operator`, "write", api.OnOperator, "read write license-read keyring-read snapshot-save keyring-rotate keyring-delete", ""},
		{`operator`, "deny", api.OnOperator, "", "read license-read"},
	} {
		r := compile(t, c.block+` { policy = "`+c.policy+`" }`)
		check := func(words string, want bool) {
			for _, w := range strings.Fields(words) {
				if right := (api.Right{On: c.on, Any: []string{w}}); r.Allows(right, "x") != want || r.AllowsSomewhere(right) != want {
					t.Errorf("%s %s: %s is not %v", c.block, c.policy, w, want)
				}
			}
		}
		check(c.yes, true)
		check(c.no, false)
	}
}

func TestTheClosestPatternDecides(t *testing.T) {
	t.Parallel()
	read := api.Right{On: api.OnNamespace, Any: []string{"read-job"}}
	for _, c := range []struct{ rules, yes, no string }{
		{`namespace "dev" { policy = "read" } namespace "*" { policy = "deny" }`, "dev", "dev-1 x"},
		{`namespace "dev-*" { policy = "read" } namespace "dev-1" { policy = "deny" }`, "dev-2 dev-", "dev-1 dev x"},
		{`namespace "dev-*" { policy = "read" } namespace "dev-1" {}`, "dev-2", "dev-1"},
		{`namespace "*-web" { policy = "read" } namespace "dev-*" { policy = "deny" }`, "x-web", "dev-web dev-x"},
		{`namespace "*-webs" { policy = "read" } namespace "dev-*" { policy = "deny" }`, "dev-webs", "dev-web"},
		{`namespace "d*v-*" { policy = "read" } namespace "d*" { policy = "deny" }`, "dev-1 dv-", "d dev"},
		{`namespace "a*" { policy = "read" } namespace "*z" { policy = "deny" }`, "ab", "az z"},
		{`namespace "a*" { policy = "deny" } namespace "*z" { policy = "read" }`, "bz", "az a"},
		{`namespace "a*" { policy = "read" } namespace "*z" {}`, "", "z"},
		{`namespace "**" { policy = "read" } namespace "*" { capabilities = ["deny"] }`, "", "x"},
	} {
		r := compile(t, c.rules)
		for _, name := range strings.Fields(c.yes) {
			if !r.Allows(read, name) || !r.Sees(name) {
				t.Errorf("%s: %s is refused", c.rules, name)
			}
		}
		for _, name := range strings.Fields(c.no) {
			if r.Allows(read, name) || r.Sees(name) {
				t.Errorf("%s: %s is allowed", c.rules, name)
			}
		}
	}
}

func TestPoliciesAreMerged(t *testing.T) {
	t.Parallel()
	can := func(r *policy.Rights, capability string) bool {
		return r.Allows(api.Right{On: api.OnNamespace, Any: []string{capability}}, "dev")
	}
	r := compile(t, `namespace "dev" { policy = "read" }`, `namespace "dev" { capabilities = ["submit-job"] }`, `namespace "*" { policy = "write" }`)
	if !can(r, "read-job") || !can(r, "submit-job") || can(r, "scale-job") {
		t.Error("the capabilities of a pattern are those of all policies")
	}
	r = compile(t, `namespace "dev" { policy = "write" }`, `namespace "dev" { capabilities = ["deny"] }`)
	if can(r, "read-job") || r.Sees("dev") || r.AllowsSomewhere(api.Right{On: api.OnNamespace, Any: []string{"read-job"}}) {
		t.Error("deny in one policy refuses")
	}
	if r := compile(t, `node { policy = "write" }`, `node { policy = "deny" }`); r.Allows(api.Right{On: api.OnNode, Any: []string{"read"}}, "") {
		t.Error("deny in one policy refuses single objects")
	}
}

func TestHostVolumeCapabilitiesImplyOthers(t *testing.T) {
	t.Parallel()
	for capability, implied := range map[string]string{
		"host-volume-write":    "host-volume-register host-volume-create host-volume-delete host-volume-read",
		"host-volume-register": "host-volume-create host-volume-read",
		"host-volume-create":   "host-volume-read",
		"host-volume-delete":   "",
	} {
		r := compile(t, `namespace "x" { capabilities = ["`+capability+`"] }`)
		for _, c := range strings.Fields("host-volume-write host-volume-register host-volume-create host-volume-delete host-volume-read") {
			want := c == capability || strings.Contains(implied, c)
			if r.Allows(api.Right{On: api.OnNamespace, Any: []string{c}}, "x") != want {
				t.Errorf("%s grants %s: not %v", capability, c, want)
			}
		}
	}
}

func TestVariables(t *testing.T) {
	t.Parallel()
	r := compile(t, `
		namespace "default" {
		  variables {
		    path "app/*" { capabilities = ["read"] }
		    path "app/secret" { capabilities = ["deny"] }
		    path "app/out/*" { capabilities = ["write", "destroy"] }
		    path "*" { capabilities = ["list"] }
		  }
		}
		namespace "team-*" {
		  policy = "read"
		  variables { path "*" { capabilities = ["write"] } }
		}
		namespace "team-x" {
		  policy = "deny"
		  variables { path "*" { capabilities = ["write"] } }
		}
		namespace "team-y" { policy = "read" }`)
	for _, c := range []struct {
		namespace, path, yes, no string
	}{
		{"default", "app/a/b", "read list", "write destroy"},
		{"default", "app/secret", "", "read list write"},
		{"default", "app/out/1", "write destroy", "read list"},
		{"default", "other", "list", "read"},
		{"team-a", "any/path", "write", "read list"},
		{"team-x", "any", "", "write"},
		{"team-y", "any", "write", ""},
		{"x", "app/a", "", "list"},
	} {
		for _, op := range strings.Fields(c.yes) {
			if !r.Variables(c.namespace, c.path, op) {
				t.Errorf("%s of %s in %s is refused", op, c.path, c.namespace)
			}
		}
		for _, op := range strings.Fields(c.no + " deny other") {
			if r.Variables(c.namespace, c.path, op) {
				t.Errorf("%s of %s in %s is allowed", op, c.path, c.namespace)
			}
		}
	}
	if r.Sees("default") {
		t.Error("rules on variables are no capability in the namespace")
	}
}

func TestManagementMayDoEverything(t *testing.T) {
	t.Parallel()
	all, none := policy.Everything(), policy.Compile(policy.Named{Name: "gone"})
	right := api.Right{On: api.OnOperator, Any: []string{"write"}}
	for r, want := range map[*policy.Rights]bool{all: true, none: false} {
		if r.IsManagement() != want || r.Allows(right, "") != want || r.AllowsSomewhere(right) != want || r.Sees("x") != want ||
			r.Variables("x", "y", "read") != want || r.Explain(right, "") != (api.Verdict{Allowed: want}) {
			t.Errorf("not everything is %v", want)
		}
	}
	r := compile(t, `operator { policy = "write" }`)
	for _, right := range []api.Right{{}, {On: api.OnOperator}, {On: "x", Any: []string{"write"}}, {On: api.OnOperator, Any: []string{"", "x", "deny"}}} {
		if r.Allows(right, "") || r.AllowsSomewhere(right) {
			t.Errorf("%+v is allowed", right)
		}
	}
	if !r.Allows(right, "any name") {
		t.Error("single objects have no name")
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	r := compile(t,
		`namespace "dev-*" { capabilities = ["submit-job"] } agent { policy = "read" }`,
		`namespace "dev-*" { policy = "read", capabilities = ["read-logs"] } namespace "x" { policy = "write" }`,
		`namespace "x" { policy = "deny" } node_pool "gpu" {} namespace "v" { variables { path "app/*" { capabilities = ["read"] } } }`)
	list := api.Right{On: api.OnVariable, Any: []string{"list"}}
	ns := func(c ...string) api.Right { return api.Right{On: api.OnNamespace, Any: c} }
	for _, c := range []struct {
		right api.Right
		name  string
		want  api.Verdict
	}{
		{ns("submit-job"), "dev-1", api.Verdict{Allowed: true, Policy: "a", Rule: `namespace "dev-*" { capabilities = ["submit-job"] }`}},
		{ns("plan-job", "read-job"), "dev-1", api.Verdict{Allowed: true, Policy: "b", Rule: `namespace "dev-*" { policy = "read", capabilities = ["read-logs"] }`}},
		{ns("alloc-exec"), "dev-1", api.Verdict{Policy: "a", Rule: `namespace "dev-*" { capabilities = ["submit-job"] }`}},
		{ns("submit-job"), "x", api.Verdict{Policy: "c", Rule: `namespace "x" { policy = "deny" }`}},
		{ns("submit-job"), "y", api.Verdict{}},
		{api.Right{On: api.OnNodePool, Any: []string{"read"}}, "gpu", api.Verdict{Policy: "c", Rule: `node_pool "gpu" { }`}},
		{api.Right{On: api.OnAgent, Any: []string{"read"}}, "", api.Verdict{Allowed: true, Policy: "a", Rule: `agent { policy = "read" }`}},
		{api.Right{On: api.OnAgent, Any: []string{"write"}}, "", api.Verdict{Policy: "a", Rule: `agent { policy = "read" }`}},
		{list, "v/app/x/y", api.Verdict{Allowed: true, Policy: "c", Rule: `namespace "v" { variables { path "app/*" { capabilities = ["read"] } } }`}},
		{list, "v/app", api.Verdict{}},
		{list, "x/app/x", api.Verdict{Policy: "c", Rule: `namespace "x" { policy = "deny" }`}},
		{api.Right{On: "other", Any: []string{"write"}}, "", api.Verdict{}},
	} {
		got := r.Explain(c.right, c.name)
		if got != c.want {
			t.Errorf("%+v on %q: %+v", c.right, c.name, got)
		}
		if got.Rule != "" {
			parse(t, got.Rule)
		}
	}
}

func TestCheckRefusesRightsThatNoRuleGrants(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		right api.Right
		err   string
	}{
		{api.Right{On: api.OnNamespace, Any: []string{"submit-job", "read-job"}}, ""},
		{api.Right{On: api.OnNode, Any: []string{"read"}}, ""},
		{api.Right{On: api.OnNode, Any: []string{"submit-job"}}, `unknown capability "submit-job" on node: it is one of read, write`},
		{api.Right{On: api.OnNamespace, Any: []string{"deny"}}, `unknown capability "deny"`},
		{api.Right{On: api.OnNamespace}, "missing"},
		{api.Right{On: "boss", Any: []string{"read"}}, `no capabilities on "boss"`},
	} {
		if err := policy.Check(x.right); (err == nil) != (x.err == "") || err != nil && !strings.Contains(err.Error(), x.err) {
			t.Errorf("%+v: %v, want %q", x.right, err, x.err)
		}
	}
}
