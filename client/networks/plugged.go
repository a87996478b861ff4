package networks

import (
	"context"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/client/networks/cni"
)

// leftoversWait bounds the deletion of leftover CNI networks at the start of the agent.
const leftoversWait = time.Minute

func isCNI(a *api.Allocation) bool { return strings.HasPrefix(modeOf(a), cni.Prefix) }

// plug lets the plugins of a CNI network connect the namespace of the allocation, unless they did.
func (s *Service) plug(ctx context.Context, a *api.Allocation) (*api.AllocNetworkStatus, error) {
	n := a.Group().Networks[0]
	var status *api.AllocNetworkStatus
	if isNamespace(s.namespacePath(a.ID)) {
		var err error
		if status, err = s.cni.Existing(a.ID); err != nil {
			return nil, err
		}
	}
	if status == nil {
		ports, err := s.portsOf(a)
		if err != nil {
			return nil, err
		}
		if err := s.makeNamespace(a.ID); err != nil {
			return nil, err
		}
		status, err = s.cni.Add(ctx, cni.Request{
			AllocID: a.ID, Network: strings.TrimPrefix(n.Mode, cni.Prefix), Namespace: s.namespacePath(a.ID),
			Args: argumentsOf(a, n), Capabilities: capabilities(n, ports),
		})
		if err != nil {
			return nil, err
		}
	}
	dns, ips := n.DNS, []netip.Addr(nil)
	if dns == nil {
		dns = status.DNS
	}
	for _, text := range []string{status.Address, status.AddressIPv6} {
		if ip, err := netip.ParseAddr(text); err == nil && !slices.Contains(ips, ip) {
			ips = append(ips, ip)
		}
	}
	return status, s.writeFiles(a, ips, dns)
}

// argumentsOf are the arguments of the plugins: those of the job, and what the network is for.
func argumentsOf(a *api.Allocation, n *api.NetworkResource) map[string]string {
	args := map[string]string{}
	if n.CNI != nil {
		for k, v := range n.CNI.Args {
			args[k] = v
		}
	}
	for k, v := range map[string]string{"NOMAD_ALLOC_ID": a.ID, "NOMAD_NAMESPACE": a.Namespace, "NOMAD_JOB_ID": a.JobID, "NOMAD_GROUP_NAME": a.TaskGroup} {
		if delete(args, k); !strings.ContainsAny(v, ";=") { // which separate arguments
			args[k] = v
		}
	}
	return args
}

// capabilities are arguments for plugins that ask for them.
func capabilities(n *api.NetworkResource, ports []port) map[string]any {
	type mapping struct {
		HostPort      int    `json:"hostPort"`
		ContainerPort int    `json:"containerPort"`
		Protocol      string `json:"protocol"`
		HostIP        string `json:"hostIP,omitempty"`
	}
	all := map[string]any{}
	var mappings []mapping
	for _, p := range ports {
		for _, protocol := range []string{"tcp", "udp"} {
			m := mapping{HostPort: p.Value, ContainerPort: p.To, Protocol: protocol}
			if p.IP.IsValid() {
				m.HostIP = p.IP.String()
			}
			mappings = append(mappings, m)
		}
	}
	if len(mappings) > 0 {
		all["portMappings"] = mappings
	}
	if d := n.DNS; d != nil {
		all["dns"] = map[string]any{"servers": d.Servers, "searches": d.Searches, "options": d.Options}
	}
	return all
}

const (
	attributeConfig  = "plugins.cni.config."
	attributeVersion = "plugins.cni.version."
)

// CNIFingerprint returns a function that replaces in a node what it offers of CNI networks: their names as modes of networks
// and as attributes, and the versions of the plugins.
func (s *Service) CNIFingerprint(ctx context.Context) func(n *api.Node) {
	if os.Geteuid() != 0 {
		return func(*api.Node) {}
	}
	found, err := s.cni.Networks()
	if err != nil {
		s.conf.Log.Warn("this node does not offer all CNI networks", "error", err)
	}
	versions := s.cni.Versions(ctx)
	return func(n *api.Node) {
		if n.NodeResources == nil { // a reload before the host was fingerprinted
			return
		}
		for k := range n.Attributes {
			plugin, isVersion := strings.CutPrefix(k, attributeVersion)
			if strings.HasPrefix(k, attributeConfig) || isVersion && !slices.Contains(replaced, plugin) {
				delete(n.Attributes, k)
			}
		}
		r := *n.NodeResources
		r.Networks = slices.DeleteFunc(slices.Clone(r.Networks), func(n *api.NetworkResource) bool { return strings.HasPrefix(n.Mode, cni.Prefix) })
		for name, list := range found {
			n.Attributes[attributeConfig+name] = list.CNIVersion
			r.Networks = append(r.Networks, &api.NetworkResource{Mode: cni.Prefix + name})
		}
		slices.SortStableFunc(r.Networks, func(a, b *api.NetworkResource) int { return strings.Compare(a.Mode, b.Mode) })
		n.NodeResources = &r
		for plugin, v := range versions {
			if !slices.Contains(replaced, plugin) { // the built-in network reports these
				n.Attributes[attributeVersion+plugin] = v
			}
		}
	}
}

// unplug deletes CNI networks of allocations that the agent does not know, and returns how many.
func (s *Service) unplug(ctx context.Context, known func(allocID string) bool) (removed int) {
	ctx, cancel := context.WithTimeout(ctx, leftoversWait)
	defer cancel()
	all, err := s.cni.Recorded()
	if err != nil {
		s.conf.Log.Error("leftover CNI networks are not removed", "error", err)
	}
	for _, id := range all {
		if known(id) {
			continue
		}
		if err := s.cni.Delete(ctx, id); err != nil {
			s.conf.Log.Error("leftover CNI network is not removed", "alloc_id", id, "error", err)
			continue
		}
		removed++
	}
	return removed
}
