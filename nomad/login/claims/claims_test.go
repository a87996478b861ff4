package claims_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/login/claims"
)

func decode(t *testing.T, text string) map[string]any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var all map[string]any
	if err := d.Decode(&all); err != nil {
		t.Fatal(err)
	}
	return all
}

const identity = `{"sub": "ann", "uid": 12345678901234567890, "admin": true, "gone": null, "a/b": "slash",
	"groups": ["dev", "ops", 7], "team": "red", "org": {"unit": {"name": "sea"}, "tags": ["x", "y"]}}`

func TestClaimsAreMappedByNameAndByPointer(t *testing.T) {
	t.Parallel()
	got, err := claims.Map(&api.ACLAuthMethodConfig{
		ClaimMappings: map[string]string{
			"sub": "user", "uid": "id", "admin": "admin", "gone": "gone", "absent": "absent", "/org/unit/name": "unit", "/org/tags/1": "tag",
			"/org/tags/9": "none", "/a~1b": "slash", "a/b": "plain",
		},
		ListClaimMappings: map[string]string{"groups": "groups", "team": "teams", "/org/tags": "tags", "absent": "absent"},
	}, decode(t, identity))
	if err != nil {
		t.Fatal(err)
	}
	want := &claims.Claims{
		Value: map[string]string{"user": "ann", "id": "12345678901234567890", "admin": "true", "unit": "sea", "tag": "y", "slash": "slash", "plain": "slash"},
		List:  map[string][]string{"groups": {"dev", "ops", "7"}, "teams": {"red"}, "tags": {"x", "y"}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestClaimsOfAnotherShapeAreDenied(t *testing.T) {
	t.Parallel()
	for _, c := range []*api.ACLAuthMethodConfig{
		{ClaimMappings: map[string]string{"groups": "g"}},
		{ClaimMappings: map[string]string{"org": "g"}},
		{ListClaimMappings: map[string]string{"org": "g"}},
	} {
		if got, err := claims.Map(c, decode(t, identity)); !errors.Is(err, fault.Denied) {
			t.Errorf("%v: %v, %v", c, got, err)
		}
	}
}

func TestMappingsThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	many := map[string]string{}
	for i := range 65 {
		many[strings.Repeat("c", i+1)] = "n" + strings.Repeat("x", i)
	}
	for want, m := range map[string]map[string]string{
		"without a name":     {"": "x"},
		"not a JSON pointer": {"/a~2b": "x"},
		"maps both":          {"a": "x", "b": "x"},
		"letters, digits":    {"a": "x.y"},
		"65 entries":         many,
	} {
		if err := errors.Join(claims.CheckMappings("ClaimMappings", m)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", m, err, want)
		}
	}
}

func TestSelectors(t *testing.T) {
	t.Parallel()
	c := &claims.Claims{Value: map[string]string{"user": "ann"}, List: map[string][]string{"groups": {"dev", "ops"}}}
	for selector, want := range map[string]bool{
		"":                    true,
		`value.user == "ann"`: true,
		`value.user == ann and dev in list.groups`: true,
		`"dev" in list.groups`:                     true,
		`"boss" in list.groups`:                    false,
		`value.user matches "^a"`:                  true,
		`value.absent == "x"`:                      false,
		`"x" in list.absent`:                       false,
		`any list.groups as g { g == "ops" }`:      true,
		`not "dev" in list.groups`:                 false,
	} {
		if err := claims.CheckSelector(selector); err != nil {
			t.Errorf("%s: %v", selector, err)
		}
		if got, err := c.Selected(selector); got != want {
			t.Errorf("%s selects: %v %v", selector, got, err)
		}
	}
	for _, selector := range []string{"value.", "other.x == 1", "value == 1", `value.user matches "("`, "x", strings.Repeat("(", 20<<10), strings.Repeat("(", 500)} {
		if err := claims.CheckSelector(selector); !errors.Is(err, fault.Invalid) {
			t.Errorf("%.20s: %v", selector, err)
		}
	}
}

func TestTemplates(t *testing.T) {
	t.Parallel()
	c := &claims.Claims{Value: map[string]string{"user": "ann", "empty": ""}}
	others := map[string]string{"auth_method_name": "m"}
	for template, want := range map[string]string{
		"": "", "dev": "dev", "u-${value.user}": "u-ann", "${value.user}-${value.user}": "ann-ann", "${auth_method_name}/${ value.user }": "m/ann",
	} {
		if got, complete := c.Fill(template, others); got != want || !complete {
			t.Errorf("%s: %q %v", template, got, complete)
		}
		if err := claims.CheckTemplate(template, "auth_method_name"); err != nil {
			t.Error(err)
		}
	}
	for _, template := range []string{"x${value.absent}", "x${value.empty}", "x${user}"} {
		if got, complete := c.Fill(template, others); got != "x" || complete {
			t.Errorf("%s: %q %v", template, got, complete)
		}
	}
	for _, template := range []string{"${user}", "${value.user", "${list.x}", "${value.a-b}", "${}"} {
		if err := claims.CheckTemplate(template, "auth_method_name"); !errors.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", template, err)
		}
	}
}

// names are policies and roles that exist.
type names string

func (n names) has(name string) bool { return slices.Contains(strings.Fields(string(n)), name) }

func (n names) ACLPolicy(name string) *api.ACLPolicy {
	if n.has("policy:" + name) {
		return &api.ACLPolicy{Name: name}
	}
	return nil
}

func (n names) ACLRoleByName(name string) *api.ACLRole {
	if n.has("role:" + name) {
		return &api.ACLRole{ID: "id-" + name, Name: name}
	}
	return nil
}

func TestBindingsCountOnlyWhenTheirNamesExist(t *testing.T) {
	t.Parallel()
	c := &claims.Claims{Value: map[string]string{"user": "ann"}, List: map[string][]string{"groups": {"dev"}}}
	exist := names("policy:dev policy:ann role:ann role:root")
	policy := func(name string) *api.ACLBindingRule { return &api.ACLBindingRule{BindType: "policy", BindName: name} }
	role := func(name string) *api.ACLBindingRule { return &api.ACLBindingRule{BindType: "role", BindName: name} }
	when := func(selector string, r *api.ACLBindingRule) *api.ACLBindingRule { r.Selector = selector; return r }
	for name, test := range map[string]struct {
		rules []*api.ACLBindingRule
		want  *claims.Binding
	}{
		"none":           {},
		"missing policy": {rules: []*api.ACLBindingRule{policy("ops"), role("dev"), policy("${value.absent}dev")}},
		"not selected":   {rules: []*api.ACLBindingRule{when(`"ops" in list.groups`, policy("dev")), when(`value.absent == "x"`, role("root"))}},
		"management":     {rules: []*api.ACLBindingRule{policy("dev"), {BindType: "management"}}, want: &claims.Binding{Management: true}},
		"both": {
			rules: []*api.ACLBindingRule{policy("dev"), when(`"dev" in list.groups`, policy("${value.user}")), policy("ann"), role("${value.user}"), role("ann")},
			want:  &claims.Binding{Policies: []string{"ann", "dev"}, Roles: []*api.ACLTokenRoleLink{{ID: "id-ann", Name: "ann"}}},
		},
	} {
		if d := cmp.Diff(test.want, c.Bind(slices.Values(test.rules), exist)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}
