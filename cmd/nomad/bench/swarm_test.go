package bench_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/api/wire/certs"
	"github.com/open-nomad/open-nomad/api/wire/transport"
	"github.com/open-nomad/open-nomad/client/link"
)

// swarm is many simulated nodes. Their tasks start at once and end when they are told to.
type swarm struct {
	tb   testing.TB
	stop func()
}

// newSwarm registers n nodes with the server and waits until all are ready and connected both ways.
func newSwarm(tb testing.TB, server *agent, n int) *swarm {
	tb.Helper()
	id, err := certs.SelfMade()
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var live, ready sync.WaitGroup
	slots := make(chan struct{}, 32)
	for i := range n {
		node := &simNode{tb: tb, node: nodeOf(i), up: link.New(link.Config{
			Servers: server.all, Dialer: transport.Dialer{TLS: id.Client}, Log: hclog.NewNullLogger(),
		})}
		ready.Add(1)
		live.Go(func() {
			slots <- struct{}{}
			node.run(ctx, func() { <-slots; ready.Done() })
		})
	}
	ready.Wait()
	server.settled(tb)
	s := &swarm{tb: tb, stop: func() { cancel(); live.Wait() }}
	tb.Cleanup(s.stop)
	return s
}

// nodeOf is the shape of every node: 4 cores of 3,500 MHz, 32 GB, one of 50 racks in 2 datacenters.
func nodeOf(i int) *api.Node {
	return &api.Node{
		ID: fmt.Sprintf("%08x-0000-4000-8000-%012x", i*2654435761%(1<<32), i), SecretID: fmt.Sprintf("%08x-1111-4000-8000-%012x", i, i),
		Name: fmt.Sprint("n", i), Datacenter: fmt.Sprint("dc-", i%2+1), NodePool: api.NodePoolDefault, NodeClass: "linux-medium",
		Status:     api.NodeStatusInit,
		Attributes: map[string]string{"kernel.name": "linux", "cpu.arch": "amd64", "unique.hostname": fmt.Sprint("n", i), "driver.mock_driver": "1"},
		Meta:       map[string]string{"rack": fmt.Sprint("r", i%50)},
		Drivers:    map[string]*api.DriverInfo{"mock_driver": {Detected: true, Healthy: true}},
		NodeResources: &api.NodeResources{
			Cpu: api.NodeCpuResources{CpuShares: 14_000, TotalCpuCores: 4}, Memory: api.NodeMemoryResources{MemoryMB: 32_000},
			Disk:           api.NodeDiskResources{DiskMB: 100 << 10},
			Networks:       []*api.NetworkResource{{Mode: "host", Device: "eth0", IP: "10.0.0.1", CIDR: "10.0.0.1/32"}},
			MinDynamicPort: 20_000, MaxDynamicPort: 32_000,
		},
		ReservedResources: &api.NodeReservedResources{},
	}
}

// simNode is one simulated node.
type simNode struct {
	tb   testing.TB
	node *api.Node
	up   *link.Link

	newest uint64
	known  map[string]bool
	ended  map[string]bool
}

func (n *simNode) run(ctx context.Context, ready func()) {
	defer n.up.Close()
	n.known, n.ended = map[string]bool{}, map[string]bool{}
	out, err := wire.NodeRegister.Call(ctx, n.up, &api.NodeRegisterRequest{Node: n.node})
	if err == nil {
		n.up.SetNode(n.node.ID, n.node.SecretID)
		out, err = n.beat(ctx)
	}
	ready()
	if err != nil {
		if ctx.Err() == nil {
			n.tb.Errorf("node %s: %v", n.node.Name, err)
		}
		return
	}
	var parts sync.WaitGroup
	defer parts.Wait()
	parts.Go(func() { _ = n.up.Run(ctx) })
	parts.Go(func() { n.follow(ctx) })
	for ctx.Err() == nil {
		n.up.SetPace(out.HeartbeatTTL)
		select {
		case <-time.After(max(out.HeartbeatTTL/2, time.Second)):
			if next, err := n.beat(ctx); err == nil {
				out = next
			}
		case <-ctx.Done():
		}
	}
}

func (n *simNode) beat(ctx context.Context) (*api.NodeUpdateResponse, error) {
	return wire.NodeHeartbeat.Call(ctx, n.up, &api.NodeHeartbeatRequest{NodeID: n.node.ID, NodeSecret: n.node.SecretID, Status: api.NodeStatusReady})
}

// follow fetches assignments and reports what becomes of them.
func (n *simNode) follow(ctx context.Context) {
	r := &api.NodeAssignmentsRequest{NodeID: n.node.ID, NodeSecret: n.node.SecretID}
	r.MaxWait, r.Stale = time.Minute, true
	for ctx.Err() == nil {
		r.Newest, r.Count = n.newest, len(n.known)
		got, err := wire.NodeAssignments.Call(ctx, n.up, r)
		if err != nil {
			continue
		}
		r.MinIndex, r.Line = got.Index, got.Line
		report := &api.AllocUpdateRequest{NodeID: n.node.ID, NodeSecret: n.node.SecretID}
		for _, a := range got.Changed {
			n.known[a.ID], n.newest = true, max(n.newest, a.AllocModifyIndex)
			if u := n.play(a); u != nil {
				report.Allocs = append(report.Allocs, u)
			}
		}
		if len(report.Allocs) > 0 {
			_, _ = wire.NodeUpdateAllocs.Call(ctx, n.up, report)
		}
	}
}

// play starts or ends the allocation's tasks and answers what is to be reported, nil when nothing is.
func (n *simNode) play(a *api.Allocation) *api.Allocation {
	u := &api.Allocation{ID: a.ID, NodeID: a.NodeID, JobID: a.JobID, Namespace: a.Namespace, TaskStates: map[string]*api.TaskState{}}
	state := &api.TaskState{State: api.TaskStateRunning, StartedAt: time.Now()}
	switch {
	case n.ended[a.ID]:
		return nil
	case a.DesiredStatus != api.AllocDesiredStatusRun || a.Job != nil && a.Job.Type == api.JobTypeBatch:
		n.ended[a.ID] = true
		u.ClientStatus = api.AllocClientStatusComplete
		state.State, state.FinishedAt = api.TaskStateDead, time.Now()
	case a.ClientStatus == api.AllocClientStatusPending:
		u.ClientStatus = api.AllocClientStatusRunning
	default:
		return nil
	}
	for task := range a.AllocatedResources.Tasks {
		u.TaskStates[task] = state
	}
	return u
}
