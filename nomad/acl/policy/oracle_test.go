package policy_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/acl/policy"
)

// The vocabulary of namespaces as the description of the interface lists it.
const (
	readOfNamespace  = "list-jobs parse-job read-job csi-list-volume csi-read-volume read-job-scaling list-scaling-policies read-scaling-policy host-volume-read"
	addedByWrite     = "scale-job submit-job dispatch-job read-logs read-fs alloc-exec alloc-lifecycle csi-mount-volume csi-write-volume submit-recommendation host-volume-create"
	scaleOfNamespace = "list-scaling-policies read-scaling-policy read-job-scaling scale-job read-job submit-recommendation"
	onlyExplicit     = "alloc-node-exec sentinel-override csi-register-plugin host-volume-register host-volume-write host-volume-delete " +
		"register-job revert-job deregister-job purge-job evaluate-job plan-job tag-job-version stable-job fail-deployment pause-deployment " +
		"promote-deployment unblock-deployment cancel-deployment set-alloc-health-deployment gc-allocation pause-allocation " +
		"force-periodic-job delete-service-registration"
)

// written is one rule of a namespace, as a policy has it.
type written struct {
	policy, pattern, shorthand string
	capabilities               []string
	paths                      map[string][]string
}

func (w written) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "namespace %q {\n", w.pattern)
	if w.shorthand != "" {
		fmt.Fprintf(&b, "policy = %q\n", w.shorthand)
	}
	fmt.Fprintf(&b, "capabilities = [%s]\nvariables {\n", quoted(w.capabilities))
	for path, c := range w.paths {
		fmt.Fprintf(&b, "path %q { capabilities = [%s] }\n", path, quoted(c))
	}
	return b.String() + "}\n}\n"
}

func quoted(list []string) string {
	var q []string
	for _, s := range list {
		q = append(q, fmt.Sprintf("%q", s))
	}
	return strings.Join(q, ", ")
}

// fits tries every length of text for a star.
func fits(glob, name string) bool {
	if glob == "" {
		return name == ""
	}
	if glob[0] == '*' {
		for i := range len(name) + 1 {
			if fits(glob[1:], name[i:]) {
				return true
			}
		}
		return false
	}
	return name != "" && glob[0] == name[0] && fits(glob[1:], name[1:])
}

// candidate is a pattern that may decide, with all that the rules of it grant.
type candidate struct {
	pattern string
	grants  []string
}

// decided returns what the deciding one of all candidates grants. Patterns of one text are merged first.
func decided(all []candidate, matches func(pattern string) bool) []string {
	merged := map[string][]string{}
	for _, c := range all {
		merged[c.pattern] = append(merged[c.pattern], c.grants...)
	}
	best, found := "", false
	rank := func(p string) string { // the smaller decides
		stars, denies := 1, 1
		if !strings.Contains(p, "*") {
			stars = 0
		}
		if slices.Contains(merged[p], "deny") {
			denies = 0
		}
		return fmt.Sprintf("%d %06d %d %s", stars, 100_000-len(strings.ReplaceAll(p, "*", "")), denies, p)
	}
	for p := range merged {
		if matches(p) && (!found || rank(p) < rank(best)) {
			best, found = p, true
		}
	}
	if slices.Contains(merged[best], "deny") || !found {
		return nil
	}
	return merged[best]
}

func meaning(w written) []string {
	all := slices.Clone(w.capabilities)
	switch w.shorthand {
	case "read":
		all = append(all, strings.Fields(readOfNamespace)...)
	case "write":
		all = append(all, strings.Fields(readOfNamespace+" "+addedByWrite)...)
	case "scale":
		all = append(all, strings.Fields(scaleOfNamespace)...)
	case "deny":
		all = append(all, "deny")
	}
	if slices.Contains(all, "host-volume-write") {
		all = append(all, "host-volume-register", "host-volume-create", "host-volume-delete", "host-volume-read")
	}
	if slices.Contains(all, "host-volume-register") {
		all = append(all, "host-volume-create", "host-volume-read")
	}
	if slices.Contains(all, "host-volume-create") {
		all = append(all, "host-volume-read")
	}
	return all
}

func allowed(rules []written, namespace, capability string) bool {
	var all []candidate
	for _, w := range rules {
		all = append(all, candidate{w.pattern, meaning(w)})
	}
	return slices.Contains(decided(all, func(p string) bool { return fits(p, namespace) }), capability)
}

func mayUse(rules []written, namespace, path, operation string) bool {
	denies := false
	var onNamespace, onPath []candidate
	for _, w := range rules {
		onNamespace = append(onNamespace, candidate{w.pattern, append(meaning(w), "there is a rule")})
		for p, c := range w.paths {
			grants := slices.Clone(c)
			if slices.Contains(grants, "read") {
				grants = append(grants, "list")
			}
			onPath = append(onPath, candidate{w.pattern + "\x00" + p, grants})
		}
		denies = denies || fits(w.pattern, namespace)
	}
	denies = denies && decided(onNamespace, func(p string) bool { return fits(p, namespace) }) == nil
	return !denies && slices.Contains(decided(onPath, func(p string) bool {
		ns, glob, _ := strings.Cut(p, "\x00")
		return fits(ns, namespace) && fits(glob, path)
	}), operation)
}

// TestRightsAreThoseOfTheOracle compares with a slow decision that tries all patterns one by one.
func TestRightsAreThoseOfTheOracle(t *testing.T) {
	t.Parallel()
	rounds := 400
	if testing.Short() {
		rounds = 200
	}
	capabilities := strings.Fields(readOfNamespace + " " + addedByWrite + " " + onlyExplicit)
	rng := rand.New(rand.NewPCG(1, 2))
	some := func(of []string, n int) []string {
		var list []string
		for range rng.IntN(n + 1) {
			list = append(list, of[rng.IntN(len(of))])
		}
		return list
	}
	word := func(letters string, n int) string {
		var b strings.Builder
		for range 1 + rng.IntN(n) {
			b.WriteByte(letters[rng.IntN(len(letters))])
		}
		return strings.ReplaceAll(b.String(), "**", "*")
	}
	yes := 0
	for range rounds {
		var rules []written
		var sources []policy.Named
		for i := range 1 + rng.IntN(4) {
			text := ""
			for range 1 + rng.IntN(3) {
				w := written{policy: fmt.Sprint(i), pattern: collapse(word("ab*", 4)), paths: map[string][]string{}, capabilities: some(append(capabilities, "deny"), 3)}
				if rng.IntN(2) == 0 {
					w.shorthand = []string{"read", "write", "scale", "deny"}[rng.IntN(4)]
				}
				for range rng.IntN(3) {
					w.paths[collapse(word("x/*", 4))] = some([]string{"list", "read", "write", "destroy", "deny"}, 2)
				}
				rules = append(rules, w)
				text += w.String()
			}
			sources = append(sources, policy.Named{Name: fmt.Sprint(i), Policy: parse(t, text)})
		}
		rng.Shuffle(len(sources), func(i, j int) { sources[i], sources[j] = sources[j], sources[i] })
		r := policy.Compile(sources...)
		for range 20 {
			namespace, path, capability := word("ab", 4), word("x/", 4), capabilities[rng.IntN(len(capabilities))]
			right := api.Right{On: api.OnNamespace, Any: []string{capability}}
			want := allowed(rules, namespace, capability)
			if got := r.Allows(right, namespace); got != want {
				t.Fatalf("%s in %s is allowed: %v, want %v\n%s", capability, namespace, got, want, rules)
			}
			v := r.Explain(right, namespace)
			fit := slices.ContainsFunc(rules, func(w written) bool { return fits(w.pattern, namespace) })
			if v.Allowed != want || (v.Rule != "") != fit || want && !strings.Contains(v.Rule, "policy") && !strings.Contains(v.Rule, "host-volume") && !strings.Contains(v.Rule, capability) {
				t.Fatalf("%s in %s: %+v\n%s", capability, namespace, v, rules)
			}
			if want && !r.AllowsSomewhere(right) {
				t.Fatalf("%s is allowed in %s and not somewhere", capability, namespace)
			}
			var all []candidate
			for _, w := range rules {
				all = append(all, candidate{w.pattern, meaning(w)})
			}
			sees := len(decided(all, func(p string) bool { return fits(p, namespace) })) > 0
			if r.Sees(namespace) != sees {
				t.Fatalf("%s is seen: %v\n%s", namespace, !sees, rules)
			}
			for _, op := range []string{"list", "read", "write", "destroy"} {
				want := mayUse(rules, namespace, path, op)
				if got := r.Variables(namespace, path, op); got != want {
					t.Fatalf("%s of %s in %s is allowed: %v, want %v\n%s", op, path, namespace, got, want, rules)
				}
				if want {
					yes++
				}
			}
		}
	}
	if yes < rounds {
		t.Errorf("only %d operations on variables were allowed", yes)
	}
}

func collapse(glob string) string {
	for strings.Contains(glob, "**") {
		glob = strings.ReplaceAll(glob, "**", "*")
	}
	return glob
}
