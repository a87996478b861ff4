package nodes_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/api/wire/transport"
	"github.com/open-nomad/open-nomad/nomad/nodes"
)

// What a node is answered must fit into a message, whatever jobs are placed there: else it hears of nothing any more.
func TestAssignmentsComeInPortions(t *testing.T) {
	r := open(t, nodes.Heartbeat{})
	r.register(node("n"))
	j := &api.Job{ID: "fat", Namespace: "default", Type: api.JobTypeBatch, Meta: map[string]string{"a": strings.Repeat("x", 7<<20)}}
	const index = 1000
	tx := r.state.Write(index, time.Now())
	for i := range 10 {
		tx.PutAlloc(&api.Allocation{
			ID: fmt.Sprint("a", i), NodeID: "n", Namespace: "default", JobID: "fat", Job: j, AllocModifyIndex: index,
			DesiredStatus: api.AllocDesiredStatusRun, ClientStatus: api.AllocClientStatusPending,
		})
	}
	tx.PutAlloc(&api.Allocation{
		ID: "other", NodeID: "n", Namespace: "default", JobID: "other", AllocModifyIndex: index,
		DesiredStatus: api.AllocDesiredStatusStop, ClientStatus: api.AllocClientStatusRunning,
	})
	tx.Commit()
	for _, from := range []uint64{0, 5} { // one that begins, and one that follows
		q := &api.NodeAssignmentsRequest{NodeID: "n", NodeSecret: "secret of n", Known: map[string]uint64{}}
		if q.MinIndex = from; from > 0 {
			q.Line, q.Newest = r.state.Read().Line(), from
		}
		for answers := 0; ; answers++ {
			out, err := r.Assignments(t.Context(), q)
			if err != nil || answers > 11 {
				t.Fatal(answers, err)
			}
			body, _, err := wire.Coded(out, &api.Empty{})
			if err != nil || len(body) > transport.MaxMessageBytes/2 {
				t.Fatalf("%d allocations: %d bytes: %v", len(out.Changed), len(body), err)
			}
			for _, a := range out.Changed {
				q.Known[a.ID] = a.AllocModifyIndex
			}
			if len(out.Assigned) != 11 && !out.Kept {
				t.Errorf("assigned are %v", out.Assigned)
			}
			if out.Index > 0 {
				break
			}
			q.MinIndex, q.Line = 0, 0
		}
		if len(q.Known) != 11 {
			t.Errorf("the node heard of %v", q.Known)
		}
	}
}

func TestANodeThatSaysTooMuchIsRefused(t *testing.T) {
	long := strings.Repeat("x", 5<<20)
	for want, say := range map[string]func(*api.Node){
		"name":      func(n *api.Node) { n.Name = long },
		"class":     func(n *api.Node) { n.NodeClass = "a\x1b[2J" },
		"node pool": func(n *api.Node) { n.NodePool = "a b" },
		"20002 characters": func(n *api.Node) {
			n.HostNetworks = map[string]*api.HostNetworkInfo{"a": {ReservedPorts: "1," + long[:20_000]}}
		},
		"bytes of drivers": func(n *api.Node) {
			n.Drivers = map[string]*api.DriverInfo{"x": {Attributes: map[string]string{"a": long}}}
		},
		"bytes without":   func(n *api.Node) { n.Attributes = map[string]string{"a": long} },
		"a mount of node": func(n *api.Node) { n.StaleMounts = []*api.StaleMount{{AllocID: long}} },
		"10001 mounts":    func(n *api.Node) { n.StaleMounts = mounts(10_001) },
		"1001 networks": func(n *api.Node) {
			for range 1001 {
				n.NodeResources.Networks = append(n.NodeResources.Networks, &api.NetworkResource{})
			}
		},
		"node memory": func(n *api.Node) { n.NodeResources.Memory.MemoryMB = 1<<40 + 1 },
		"node cpu":    func(n *api.Node) { n.NodeResources.Cpu.CpuShares = -1 },
	} {
		r := open(t, nodes.Heartbeat{})
		n := node("n")
		n.NodeResources = &api.NodeResources{}
		say(n)
		_, err := r.Register(t.Context(), &api.NodeRegisterRequest{Node: n})
		if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 500 {
			t.Errorf("want %q, got %.300v", want, err)
		}
	}
}

func mounts(n int) (all []*api.StaleMount) {
	for i := range n {
		all = append(all, &api.StaleMount{AllocID: fmt.Sprintf("%06d", i)})
	}
	return all
}

// They stay with the node until they are gone: what it tells again is no more of them.
func TestTheMountsOfANodeAreKeptOnceAndSoon(t *testing.T) {
	r := open(t, nodes.Heartbeat{})
	r.register(node("n"))
	for range 3 {
		n := node("n")
		n.StaleMounts = append(mounts(9_999), mounts(1)...)
		began := time.Now()
		if _, err := r.Register(t.Context(), &api.NodeRegisterRequest{Node: n}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("took %v", took)
		}
		if got := len(r.state.Read().Node("n").StaleMounts); got != 9_999 {
			t.Errorf("%d mounts are noted", got)
		}
	}
}

// What is for people only is no reason to refuse a node or its heartbeat.
func TestLongTextsOfNodesAreCut(t *testing.T) {
	r := open(t, nodes.Heartbeat{})
	long := strings.Repeat("x", 5<<20)
	n := node("n")
	n.Drivers = map[string]*api.DriverInfo{"x": {HealthDescription: long}, "y": {HealthDescription: "well"}}
	r.register(n)
	e := &api.NodeEvent{Message: long, Details: map[string]string{long: long}}
	for i := range 100 {
		e.Details[fmt.Sprint(i)] = ""
	}
	if _, err := r.Heartbeat(t.Context(), &api.NodeHeartbeatRequest{NodeID: "n", NodeSecret: "secret of n", Events: []*api.NodeEvent{e, e, e, e, e, e, e, e, e, e, e, e}}); err != nil {
		t.Fatal(err)
	}
	got := r.state.Read().Node("n")
	if size := got.Msgsize(); size > 64<<10 || len(got.Events) != 10 || got.Drivers["y"].HealthDescription != "well" {
		t.Errorf("the node has %d bytes, %d events", size, len(got.Events))
	}
}

// A driver that names the node, itself or where it is by what cannot be stored takes no node down: its plugin is
// unhealthy, and says why.
func TestPluginWhoseNamesCannotBeStoredIsUnhealthy(t *testing.T) {
	t.Parallel()
	info := func(change func(*api.CSIInfo)) *api.CSIInfo {
		p := &api.CSIInfo{PluginID: "p", Healthy: true, Provider: "driver", NodeInfo: &api.CSINodeInfo{ID: "machine"}}
		change(p)
		return p
	}
	for name, p := range map[string]*api.CSIInfo{
		"an id of the node with NUL":  info(func(p *api.CSIInfo) { p.NodeInfo.ID = "machine\x00other" }),
		"an id of the node, too long": info(func(p *api.CSIInfo) { p.NodeInfo.ID = strings.Repeat("m", 257) }),
		"a name of the driver":        info(func(p *api.CSIInfo) { p.Provider = "dri\x1bver" }),
		"a key of the topology": info(func(p *api.CSIInfo) {
			p.NodeInfo.AccessibleTopology = &api.Topology{Segments: map[string]string{"zo\x00ne": "a"}}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := open(t, nodes.Heartbeat{})
			n := node("n1")
			n.CSINodePlugins = map[string]*api.CSIInfo{"p": p, "fine": info(func(*api.CSIInfo) {}), "b\x00ad": info(func(*api.CSIInfo) {})}
			r.register(n)
			got := r.state.Read().Node("n1").CSINodePlugins
			if bad := got["p"]; bad == nil || bad.Healthy || !strings.Contains(bad.HealthDescription, "cannot be used") || strings.Contains(bad.Provider, "\x1b") ||
				bad.NodeInfo != nil && bad.NodeInfo.ID != "machine" {
				t.Errorf("the plugin is %+v", bad)
			}
			if len(got) != 2 || !got["fine"].Healthy || got["fine"].NodeInfo.ID != "machine" {
				t.Errorf("plugins are %v", got)
			}
			if !p.Healthy {
				t.Error("what was sent is changed")
			}
		})
	}
}
