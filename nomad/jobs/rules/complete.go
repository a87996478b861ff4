package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

// Complete fills in what only servers know: where a job may run by default, the tasks' default
// identity, and the constraints that follow from what each group uses. It is idempotent and changes
// the job, which must not be shared.
func Complete(j *api.Job) {
	if len(j.Datacenters) == 0 {
		j.Datacenters = []string{"*"}
	}
	if j.NodePool == "" {
		j.NodePool = api.NodePoolDefault
	}
	if p := j.Periodic; p != nil && p.SpecType == "" {
		p.SpecType = "cron"
	}
	for _, g := range j.TaskGroups {
		for _, t := range g.Tasks {
			completeIdentity(t)
			if t.Resources != nil {
				completePorts(t.Resources.Networks)
			}
		}
		completePorts(g.Networks)
		completeChecks(g)
		if s := g.Scaling; s != nil {
			s.Target = map[string]string{"Namespace": j.Namespace, "Job": j.ID, "Group": g.Name}
		}
		for _, k := range implied(g) {
			if !slices.ContainsFunc(g.Constraints, func(have *api.Constraint) bool { return *have == *k }) {
				g.Constraints = append(g.Constraints, k)
			}
		}
	}
}

// Drop takes out of a job what is accepted and has no effect, after its warnings.
func Drop(j *api.Job) {
	for _, g := range j.TaskGroups {
		for _, t := range g.Tasks {
			if t.Resources != nil {
				t.Resources.DiskMB = 0
			}
		}
	}
}

// completeIdentity gives a task its default identity, which only the servers accept whatever is asked.
func completeIdentity(t *api.Task) {
	id := api.WorkloadIdentity{}
	if t.Identity != nil {
		id = *t.Identity
	}
	id.Name, id.Audience = api.IdentityDefaultName, []string{api.IdentityDefaultAudience}
	t.Identity = &id
}

// defaultNetwork is the host network of ports that name none.
const defaultNetwork = "default"

func completePorts(networks []*api.NetworkResource) {
	for _, n := range networks {
		for _, ports := range [][]api.Port{n.ReservedPorts, n.DynamicPorts} {
			for i := range ports {
				if ports[i].HostNetwork == "" {
					ports[i].HostNetwork = defaultNetwork
				}
			}
		}
	}
}

// completeChecks names the checks that have no name.
func completeChecks(g *api.TaskGroup) {
	for _, s := range services(g) {
		for i := range s.Checks {
			if s.Checks[i].Name == "" {
				s.Checks[i].Name = fmt.Sprintf("service: %q check", s.Name)
			}
		}
	}
}

// implied are the constraints that follow from what a group uses.
func implied(g *api.TaskGroup) []*api.Constraint {
	var all []*api.Constraint
	need := func(attribute, operand, value string) {
		all = append(all, &api.Constraint{LTarget: "${attr." + attribute + "}", Operand: operand, RTarget: value})
	}
	providers := map[string]bool{}
	for _, s := range services(g) {
		providers[s.Provider] = true
	}
	if providers["nomad"] {
		need("nomad.service_discovery", "=", "true")
	}
	if providers["consul"] {
		need("consul.version", api.ConstraintSemver, ">= 1.8.0")
	}
	if slices.ContainsFunc(g.Tasks, func(t *api.Task) bool { return t.Vault != nil }) {
		need("vault.version", api.ConstraintSemver, ">= 0.6.1")
	}
	if names := signals(g); len(names) > 0 {
		need("os.signals", api.ConstraintSetContains, strings.Join(names, ","))
	}
	if slices.ContainsFunc(g.Networks, func(n *api.NetworkResource) bool { return n.Mode == "bridge" }) {
		for _, plugin := range []string{"bridge", "firewall", "host-local", "loopback", "portmap"} {
			need("plugins.cni.version."+plugin, api.ConstraintSemver, ">= 0.4.0")
		}
	}
	for _, provider := range secretProviders(g) {
		need("plugins.secrets."+provider+".version", api.ConstraintAttributeIsSet, "")
	}
	return all
}

func services(g *api.TaskGroup) []*api.Service {
	all := slices.Clone(g.Services)
	for _, t := range g.Tasks {
		all = append(all, t.Services...)
	}
	return all
}

// signals are the signals that a group's tasks may be sent, sorted.
func signals(g *api.TaskGroup) []string {
	found := map[string]bool{}
	for _, t := range g.Tasks {
		found[t.KillSignal] = true
		for _, m := range t.Templates {
			if m.ChangeMode == "signal" {
				found[m.ChangeSignal] = true
			}
		}
		if t.Vault != nil && t.Vault.ChangeMode == "signal" {
			found[t.Vault.ChangeSignal] = true
		}
	}
	delete(found, "")
	return slices.Sorted(maps.Keys(found))
}

// secretProviders are the plugins that a group's secrets come from, sorted. Two providers are no plugins.
func secretProviders(g *api.TaskGroup) []string {
	found := map[string]bool{}
	for _, t := range g.Tasks {
		for _, s := range t.Secrets {
			found[s.Provider] = s.Provider != ""
		}
	}
	for _, builtin := range []string{"", "nomad", "vault"} {
		delete(found, builtin)
	}
	return slices.Sorted(maps.Keys(found))
}
