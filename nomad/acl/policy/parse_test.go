package policy_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/acl/policy"
)

func parse(t testing.TB, rules string) *policy.Policy {
	t.Helper()
	p, err := policy.Parse(rules)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The file is what a server of the compatible interface returned for the rules in it.
func TestJSONFormIsRulesJSON(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("testdata/rules.json")
	if err != nil {
		t.Fatal(err)
	}
	var want, got map[string]any
	if err := json.Unmarshal(file, &want); err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(parse(t, want["Raw"].(string)))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if empty := parse(t, "# nothing\n"); empty.Namespaces != nil || empty.Agent != nil {
		t.Errorf("%+v", empty)
	}
}

func TestBothSyntaxesGiveOnePolicy(t *testing.T) {
	t.Parallel()
	hcl := parse(t, `
		namespace "default" {
		  policy       = "read"
		  capabilities = ["submit-job"]
		  variables {
		    path "app/*" { capabilities = ["read"] }
		    path "x" { capabilities = ["deny"] }
		  }
		}
		namespace "*" { policy = "scale" }
		node_pool "gpu_*" { policy = "write" }
		host_volume "db" { capabilities = ["mount-readonly"] }
		agent { policy = "read" }
		operator {
		  policy       = "read"
		  capabilities = ["snapshot-save"]
		}
		sentinel { policy = "write" }`)
	for _, rules := range []string{
		`{"namespace": {"default": {"policy": "read", "capabilities": ["submit-job"],
			"variables": {"path": {"app/*": {"capabilities": ["read"]}, "x": {"capabilities": ["deny"]}}}}, "*": {"policy": "scale"}},
			"node_pool": {"gpu_*": {"policy": "write"}}, "host_volume": {"db": {"capabilities": ["mount-readonly"]}},
			"agent": {"policy": "read"}, "node": null, "operator": {"policy": "read", "capabilities": ["snapshot-save"]}, "sentinel": {"policy": "write"}}`,
		`{"namespace": [{"default": [{"policy": "read", "capabilities": ["submit-job"],
			"variables": [{"path": [{"app/*": [{"capabilities": ["read"]}]}, {"x": {"capabilities": ["deny"]}}]}]}]}, {"*": {"policy": "scale"}}],
			"node_pool": [{"gpu_*": [{"policy": "write"}]}], "host_volume": {"db": {"capabilities": ["mount-readonly"]}},
			"agent": [{"policy": "read"}], "operator": [{"policy": "read", "capabilities": ["snapshot-save"]}], "sentinel": {"policy": "write"}}`,
	} {
		p := parse(t, rules)
		p.Raw = hcl.Raw
		a, _ := json.Marshal(hcl)
		b, _ := json.Marshal(p)
		if d := cmp.Diff(string(a), string(b)); d != "" {
			t.Error(d)
		}
	}
	if want := []string{"snapshot-save", "license-read", "keyring-read"}; !cmp.Equal(hcl.Operator.Capabilities, want) {
		t.Error(hcl.Operator.Capabilities)
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	for rules, want := range map[string]string{
		`namespace "default" { policy = "zap" }`: `Invalid namespace policy: At 1:32: "zap" is not one of read, write, scale, deny`,
		`namespace {{`:                           `Failed to parse ACL Policy: At 1:12: "{" is never closed`,
		`namespace {}`:                           `Invalid namespace: At 1:1: one name is needed, such as namespace "dev-*" { ... }`,
		`namespace { policy = "read" }`:          `Invalid namespace: At 1:13: one name is needed before the block, such as namespace "dev-*" { ... }`,
		`namespace "a" "b" {}`:                   `Invalid namespace: At 1:1: one name is needed, such as namespace "dev-*" { ... }`,
		`namespace = "x"`:                        `Invalid namespace: At 1:13: a block is needed, not a string`,
		`namespace "a b" {}`:                     `Invalid namespace name: At 1:1: "a b" is not a name or a glob of 1 to 128 of a-z, A-Z, 0-9, -, *`,
		`namespace "a_b" {}`:                     `Invalid namespace name: At 1:1: "a_b" is not a name or a glob of 1 to 128 of a-z, A-Z, 0-9, -, *`,
		`node_pool "a/b" {}`:                     `Invalid node_pool name: At 1:1: "a/b" is not a name or a glob of 1 to 128 of a-z, A-Z, 0-9, -, *, _`,
		`host_volume "" {}`:                      `Invalid host_volume name: At 1:1: "" is not a name or a glob of 1 to 128 of a-z, A-Z, 0-9, -, *`,
		"\n" + `namespace "a" { capabilities = ["submit-jobs"] }`:           `Invalid namespace capability: At 2:33: "submit-jobs" is not known; did you mean "submit-job"?`,
		`namespace "a" { capabilities = [5] }`:                              `Invalid namespace capability: At 1:33: "5" is not known`,
		`namespace "a" { capabilities = "x" }`:                              `Invalid policy: At 1:32: namespace.capabilities: a list is needed, not a string`,
		`namespace "a" { policy = 5 }`:                                      `Invalid namespace policy: At 1:26: "5" is not one of read, write, scale, deny`,
		`namespace "a" { polcy = "read" }`:                                  `Invalid policy: At 1:17: unknown key "namespace.polcy"; did you mean "policy"?`,
		`node_pool "a" { policy = "list" }`:                                 `Invalid node_pool policy: At 1:26: "list" is not one of read, write, deny`,
		`node_pool "a" { capabilities = ["list"] }`:                         `Invalid node_pool capability: At 1:33: "list" is not one of deny, read, write, delete`,
		`host_volume "a" { capabilities = ["read"] }`:                       `Invalid host_volume capability: At 1:35: "read" is not one of deny, mount-readonly, mount-readwrite`,
		`plugin { policy = "scale" }`:                                       `Invalid plugin policy: At 1:19: "scale" is not one of read, write, list, deny`,
		`operator { capabilities = ["read"] }`:                              `Invalid operator capability: At 1:28: "read" is not one of deny, license-read, keyring-read, snapshot-save, keyring-rotate, keyring-delete`,
		`operator {}`:                                                       `Invalid operator policy: At 1:1: the block needs a policy: read, write, deny`,
		`agent {}`:                                                          `Invalid agent policy: At 1:1: the block needs a policy: read, write, deny`,
		`agent { capabilities = ["read"] }`:                                 `Invalid policy: At 1:9: unknown key "agent.capabilities"; Invalid agent policy: At 1:1: the block needs a policy: read, write, deny`,
		`agent "x" { policy = "read" }`:                                     `Invalid policy: At 1:1: agent takes no label such as "x"`,
		`agent { policy = "read" } agent { policy = "deny" }`:               `Invalid policy: At 1:27: agent is defined twice; the first is on line 1`,
		`namespace "a" { policy = "read", policy = "deny" }`:                `Invalid policy: At 1:34: policy is defined twice; the first is on line 1`,
		`agnt { policy = "read" }`:                                          `Invalid policy: At 1:1: unknown key "agnt"; did you mean "agent"?`,
		`namespaces "a" { policy = "read" }`:                                `Invalid policy: At 1:1: unknown key "namespaces"; did you mean "namespace"?`,
		`namespace "a" { variables { path "" {} } }`:                        `Invalid path: At 1:29: "" is not a path or a glob of 1 to 1024 printable bytes`,
		"namespace \"a\" { variables { path \"a\\u0000b\" {} } }":           `Invalid path: At 1:29: "a\x00b" is not a path or a glob of 1 to 1024 printable bytes`,
		`namespace "a" { variables { p "x" {} } }`:                          `Invalid policy: At 1:29: unknown key "p" in variables: only path blocks are known`,
		`namespace "a" { variables = 1 }`:                                   `Invalid policy: At 1:29: namespace.variables: a block is needed, not a number`,
		`namespace "a" { variables { path "x" { policy = "read" } } }`:      `Invalid policy: At 1:40: unknown key "path.policy"`,
		`namespace "a" { variables { path "x" { capabilities = ["x"] } } }`: `Invalid path capability: At 1:56: "x" is not one of deny, list, read, write, destroy`,
		`{"namespace": {"a": {"policy": "zap"}}}`:                           `Invalid namespace policy: At 1:32: "zap" is not one of read, write, scale, deny`,
		`{"namespace": null}`:                                               `Invalid namespace: At 1:15: a block is needed, not null`,
		`agent { policy = "x" } node { policy = "y" }`:                      `Invalid agent policy: At 1:18: "x" is not one of read, write, deny; Invalid node policy: At 1:40: "y" is not one of read, write, deny`,
	} {
		switch p, err := policy.Parse(rules); {
		case err == nil:
			t.Errorf("%s: %+v", rules, p)
		case err.Error() != "failed to parse rules: "+want || !errors.Is(err, fault.Invalid):
			t.Errorf("%s:\n got %v\nwant %s", rules, err, "failed to parse rules: "+want)
		}
	}
}

// Errors are short and parsing ends soon, whatever the rules are.
func TestHostileRules(t *testing.T) {
	t.Parallel()
	const n = 1 << 18
	fill := func(before, s, after string) string {
		return before + strings.Repeat(s, (n-len(before)-len(after))/len(s)) + after
	}
	for name, rules := range map[string]string{
		"too large":         strings.Repeat(" ", 1<<20+1),
		"nested":            fill("", "a {", ""),
		"nested JSON":       fill("", `{"a":`, ""),
		"long key":          fill("", "a", " = 1"),
		"unknown keys":      fill("", "b = 1\n", ""),
		"long label":        fill(`namespace "`, "a", `" {}`),
		"bad capabilities":  fill(`namespace "a" { capabilities = [`, `"x",`, `]}`),
		"JSON capabilities": fill(`{"namespace":{"a":{"capabilities":["x"`, `,"x"`, `]}}}`),
		"JSON lines":        fill("{\"b\":1\n", ",\"b\":1\n", "}"),
	} {
		began := time.Now()
		p, err := policy.Parse(rules)
		if err == nil || len(err.Error()) > 5000 {
			t.Errorf("%s: %+v %.200v", name, p, err)
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("%s: %v", name, took)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`namespace "default" { policy = "read", capabilities = ["submit-job"] variables { path "a/*" { capabilities = ["read"] } } }`)
	f.Add(`{"namespace":[{"default":{"policy":"read"}}],"agent":{"policy":"write"}}`)
	f.Add("node_pool \"*\" { policy = \"deny\" }\nplugin { policy = \"list\" }\noperator { capabilities = [\"keyring-read\"] }")
	f.Fuzz(func(t *testing.T, rules string) {
		began := time.Now()
		p, err := policy.Parse(rules)
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("it took %v", took)
		}
		if err != nil {
			if !errors.Is(err, fault.Invalid) && !errors.Is(err, fault.TooLarge) || !strings.HasPrefix(err.Error(), "failed to parse rules: ") {
				t.Fatal(err)
			}
			return
		}
		if _, err := json.Marshal(p); err != nil {
			t.Fatal(err)
		}
		r := policy.Compile(policy.Named{Name: "p", Policy: p})
		for _, n := range p.Namespaces[:min(len(p.Namespaces), 10)] {
			r.Sees(n.Name)
		}
	})
}
