package taskenv

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/cpulist"
)

// shortIDBytes is the length of a shortened allocation id.
const shortIDBytes = 8

func (e *Env) set(name, value string) { e.vars["NOMAD_"+name] = value }

func (e *Env) setMaybe(name, value string) {
	if value != "" {
		e.set(name, value)
	}
}

func (e *Env) identity(in Input) {
	a := in.Alloc
	e.set("ALLOC_ID", a.ID)
	e.set("SHORT_ALLOC_ID", a.ID[:min(shortIDBytes, len(a.ID))])
	e.set("ALLOC_NAME", a.Name)
	e.set("ALLOC_INDEX", Index(a.Name))
	e.set("TASK_NAME", in.Task.Name)
	e.set("GROUP_NAME", a.TaskGroup)
	e.set("JOB_ID", a.JobID)
	e.set("NAMESPACE", a.Namespace)
	e.setMaybe("ALLOC_DIR", in.Paths.Alloc)
	e.setMaybe("TASK_DIR", in.Paths.Task)
	e.setMaybe("SECRETS_DIR", in.Paths.Secrets)
	region := in.Region
	if a.Job != nil {
		e.set("JOB_NAME", a.Job.Name)
		e.setMaybe("JOB_PARENT_ID", a.Job.ParentID)
		if region == "" {
			region = a.Job.Region
		}
	}
	e.setMaybe("REGION", region)
	if in.Node != nil {
		e.set("DC", in.Node.Datacenter)
		e.setMaybe("PARENT_CGROUP", in.Node.CgroupParent)
	}
}

// tokens adds the signed identities and the address of the socket that accepts them.
func (e *Env) tokens(in Input) {
	for name, token := range in.Tokens {
		if name == api.IdentityDefaultName {
			e.set("TOKEN", token)
		} else {
			e.set("TOKEN_"+name, token)
		}
		e.set("UNIX_ADDR", "unix://"+in.Paths.Secrets+"/api.sock")
	}
}

// Index is the number in the brackets of an allocation's name, "" when it has none.
func Index(allocName string) string {
	open := strings.LastIndexByte(allocName, '[')
	if open < 0 || !strings.HasSuffix(allocName, "]") {
		return ""
	}
	return allocName[open+1 : len(allocName)-1]
}

func (e *Env) resources(in Input) {
	var r *api.AllocatedTaskResources
	if in.Alloc.AllocatedResources != nil {
		r = in.Alloc.AllocatedResources.Tasks[in.Task.Name]
	}
	if r == nil {
		return
	}
	e.set("MEMORY_LIMIT", strconv.FormatInt(r.Memory.MemoryMB, 10))
	if r.Memory.MemoryMaxMB > 0 {
		e.set("MEMORY_MAX_LIMIT", strconv.FormatInt(r.Memory.MemoryMaxMB, 10))
	}
	e.set("CPU_LIMIT", strconv.FormatInt(r.Cpu.CpuShares, 10))
	e.setMaybe("CPU_CORES", cpulist.Format(r.Cpu.ReservedCores))
}

// ports adds the group's ports, and those that tasks had of their own in older jobs.
func (e *Env) ports(in Input) {
	res := in.Alloc.AllocatedResources
	if res == nil {
		return
	}
	for _, p := range res.Shared.Ports {
		port := p.Value
		if p.To > 0 {
			port = p.To
		}
		e.set("IP_"+p.Label, p.HostIP)
		e.set("PORT_"+p.Label, strconv.Itoa(port))
		e.set("ADDR_"+p.Label, address(p.HostIP, p.Value))
		e.set("HOST_IP_"+p.Label, p.HostIP)
		e.set("HOST_PORT_"+p.Label, strconv.Itoa(p.Value))
		e.set("HOST_ADDR_"+p.Label, address(p.HostIP, p.Value))
		e.set("ALLOC_PORT_"+p.Label, strconv.Itoa(port))
		e.allocNetwork(in.Alloc.NetworkStatus, p.Label, port)
	}
	for task, r := range res.Tasks {
		for _, p := range networkPorts(r.Networks) {
			label := p.Label
			if task != in.Task.Name {
				label = task + "_" + p.Label
			}
			e.set("IP_"+label, p.HostIP)
			e.set("PORT_"+label, strconv.Itoa(p.Value))
			e.set("ADDR_"+label, address(p.HostIP, p.Value))
		}
	}
}

func (e *Env) allocNetwork(n *api.AllocNetworkStatus, label string, port int) {
	if n == nil || n.Address == "" {
		return
	}
	e.set("ALLOC_INTERFACE_"+label, n.InterfaceName)
	e.set("ALLOC_IP_"+label, n.Address)
	e.set("ALLOC_ADDR_"+label, address(n.Address, port))
}

func networkPorts(networks []*api.NetworkResource) []api.PortMapping {
	var out []api.PortMapping
	for _, n := range networks {
		for _, list := range [][]api.Port{n.ReservedPorts, n.DynamicPorts} {
			for _, p := range list {
				out = append(out, api.PortMapping{Label: p.Label, Value: p.Value, To: p.To, HostIP: n.IP})
			}
		}
	}
	return out
}

func address(ip string, port int) string {
	if strings.Contains(ip, ":") {
		ip = "[" + ip + "]"
	}
	return ip + ":" + strconv.Itoa(port)
}

// meta adds the meta of job, group and task, the nearest winning, under the key as given and in capitals. Values may
// refer to those before in the order of the keys; a key that is given in capitals wins over one that is made so.
func (e *Env) meta(in Input) {
	all := map[string]string{}
	add := func(meta map[string]string) {
		for k, v := range meta {
			all[k] = v
		}
	}
	if job := in.Alloc.Job; job != nil {
		add(job.Meta)
	}
	if g := in.Alloc.Group(); g != nil {
		add(g.Meta)
	}
	add(in.Task.Meta)
	keys := slices.Sorted(maps.Keys(all))
	for _, k := range keys {
		e.set("META_"+strings.ToUpper(k), e.Replace(all[k]))
	}
	for _, k := range keys {
		e.set("META_"+k, e.Replace(all[k]))
	}
}

// nodeFacts are the names that tell about the node.
func nodeFacts(n *api.Node, region string) map[string]string {
	if n == nil {
		return nil
	}
	facts := map[string]string{
		"node.unique.id": n.ID, "node.unique.name": n.Name, "node.datacenter": n.Datacenter,
		"node.class": n.NodeClass, "node.pool": n.NodePool, "node.region": region,
	}
	for k, v := range n.Attributes {
		facts["attr."+k] = v
	}
	for k, v := range n.Meta {
		facts["meta."+k] = v
	}
	return facts
}
