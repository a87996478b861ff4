package rules

import (
	"fmt"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

// Later lists what the job asks for and this version does not do: a job that was accepted is done. What is ignored
// without harm is in [Warnings].
func Later(j *api.Job) []error {
	l := &later{}
	l.asks(j.Multiregion != nil, "job", "multiregion")
	for _, g := range j.TaskGroups {
		where := fmt.Sprintf("group %q", brief(g.Name))
		l.services(where, g.Services)
		for _, n := range g.Networks {
			l.network(where, n, true)
		}
		for _, t := range g.Tasks {
			l.task(fmt.Sprintf("%s, task %q", where, brief(t.Name)), t)
		}
	}
	return l.errs
}

type later struct{ errs []error }

// asks refuses what is asked for; what names it as job files do.
func (l *later) asks(is bool, where, what string) {
	if is {
		l.errs = append(l.errs, fmt.Errorf("%s: %s: not in this version", where, what))
	}
}

func (l *later) services(where string, all []*api.Service) {
	for _, s := range all {
		at := fmt.Sprintf("service %q", brief(s.Name))
		if s.Provider == "consul" {
			l.errs = append(l.errs, fmt.Errorf("%s: %s: the provider consul is not supported: set provider = \"nomad\"", where, at))
			continue
		}
		for i := range s.Checks {
			k := &s.Checks[i]
			for _, f := range []struct {
				name string
				set  bool
			}{
				{"expose", k.Expose},
				{"advertise", k.Advertise != ""},
				{"failures_before_warning", k.FailuresBeforeWarning != 0},
				{"address_mode " + k.AddressMode, k.AddressMode == "driver"},
			} {
				l.asks(f.set, where, fmt.Sprintf("%s: check %q: %s", at, brief(k.Name), f.name))
			}
		}
		l.asks(s.Connect != nil, where, at+": connect")
		l.asks(s.Identity != nil, where, at+": identity")
		l.asks(s.AddressMode == "driver", where, at+": address_mode "+s.AddressMode)
	}
}

func (l *later) network(where string, n *api.NetworkResource, group bool) {
	isCNI := strings.HasPrefix(n.Mode, "cni/")
	own := group && (n.Mode == modeBridge || isCNI)
	l.asks(n.DNS != nil && !own, where, "network: dns without mode bridge or cni/<name>")
	l.asks(n.Hostname != "" && !own, where, "network: hostname without mode bridge or cni/<name>")
	l.asks(n.CNI != nil && !(group && isCNI), where, "network: cni without mode cni/<name>")
	l.asks(isCNI && !group, where, "network: mode "+n.Mode)
	if n.CNI != nil {
		for key, value := range n.CNI.Args {
			l.asks(strings.Contains(value, "${"), where, fmt.Sprintf("network: cni: interpolation in argument %q", brief(key)))
		}
	}
}

func (l *later) task(where string, t *api.Task) {
	l.services(where, t.Services)
	l.asks(t.Vault != nil, where, "vault")
	for _, s := range t.Secrets {
		l.asks(s.Provider == "vault", where, fmt.Sprintf("secret %q: provider vault", brief(s.Name)))
	}
	for i, m := range t.Templates {
		name, product := functionsElsewhere(m)
		l.asks(name != "", where, fmt.Sprintf("template %d: function %s, which needs %s", i+1, name, product))
	}
	if r := t.Resources; r != nil {
		for _, n := range r.Networks {
			l.network(where+", resources", n, false)
		}
	}
}
