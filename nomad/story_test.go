package nomad_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/internal/soaktest"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/nodes"
)

const (
	storyNodes = 4
	storyJobs  = 16
	storyActs  = 200
	// callMax is longer than any call may take.
	callMax = time.Minute
	// settleMax is longer than an evaluation waits that came too late again and again.
	settleMax = 100 * time.Second
)

// A story comes out differently each time, for the nodes and the server have clocks of their own.
var firstStory = flag.Uint64("story", 0, "the first story that is told; TestWhatUsersAskForIsDoneOnce tells some from there on")

// story is a server whose users do anything, and nodes that do what they are told.
type story struct {
	t   *testing.T
	rnd *rand.Rand
	mu  sync.Mutex
	s   *nomad.Server
	// calm says that nothing fails any more, down which nodes are not heard.
	calm bool
	down map[int]bool
	// seen are the allocations that have done work, work is how often each piece was done.
	seen map[string]bool
	work map[string]int
	told []string
	made int
}

// What users ask for is done, and once, whatever they and the nodes do meanwhile and though the server starts anew.
func TestWhatUsersAskForIsDoneOnce(t *testing.T) {
	for seed := *firstStory; seed < *firstStory+uint64(soaktest.Rounds(1, 6)); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := &story{t: t, rnd: rand.New(rand.NewPCG(seed, 7)), down: map[int]bool{}, seen: map[string]bool{}, work: map[string]int{}}
			conf := nomad.Config{
				Name: "s1", Region: "global", Datacenter: "dc1", Dir: t.TempDir(), Bind: "127.0.0.1:0", Log: hclog.NewNullLogger(),
				Heartbeat: nodes.Heartbeat{MinTTL: time.Second, MaxPerSecond: 1000, Grace: time.Second, FailoverTTL: 3 * time.Second},
			}
			var stop func()
			w.s, stop = launch(t, conf)
			defer func() { stop() }()
			w.prepare(seed%2 == 0)
			ctx, cancel := context.WithCancel(t.Context())
			var nodes sync.WaitGroup
			defer nodes.Wait()
			defer cancel()
			nodes.Go(func() { w.live(ctx, rand.New(rand.NewPCG(seed, 99))) })
			for i := range storyActs {
				if i == storyActs/2 {
					w.mu.Lock()
					stop()
					w.s, stop = launch(t, conf)
					w.mu.Unlock()
				}
				w.act()
				time.Sleep(time.Duration(w.rnd.IntN(20)) * time.Millisecond)
			}
			w.heal()
			bad := w.settle(false)
			if len(bad) == 0 {
				bad = w.asleep()
			}
			if len(bad) == 0 {
				w.again()
				bad = w.settle(true)
			}
			if len(bad) == 0 {
				bad = w.asleep()
			}
			if len(bad) > 0 {
				for _, j := range w.jobs() {
					if strings.Contains(strings.Join(bad, ""), j.ID) {
						w.history(j.ID)
					}
				}
				t.Errorf("%s\n%s", strings.Join(bad, "\n"), strings.Join(w.told, "\n"))
			}
		})
	}
}

// call makes a call; what is refused is told with what was done.
func call[Req, Resp any](w *story, m wire.Method[Req, Resp], r *Req) *Resp {
	w.mu.Lock()
	c := w.s.Caller()
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(w.t.Context(), callMax)
	defer cancel()
	out, err := m.Call(ctx, c, r)
	switch {
	case ctx.Err() != nil:
		w.t.Errorf("%s was not answered: %v", m.Name, err)
		return new(Resp)
	case err != nil:
		w.tell("  %v", err)
		return new(Resp)
	}
	return out
}

func (w *story) tell(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, fmt.Sprintf(format, args...))
}

func idOf(node int) string     { return fmt.Sprintf("%08d-0000-0000-0000-000000000000", node+1) }
func secretOf(node int) string { return fmt.Sprintf("%08d-1111-0000-0000-000000000000", node+1) }

func (w *story) prepare(preempts bool) {
	if preempts {
		call(w, wire.OperatorSetSchedulerConfig, &api.SchedulerConfigRequest{Config: &api.SchedulerConfiguration{
			SchedulerAlgorithm: "binpack",
			PreemptionConfig:   api.PreemptionConfig{SystemSchedulerEnabled: true, BatchSchedulerEnabled: true, ServiceSchedulerEnabled: true, SysBatchSchedulerEnabled: true},
		}})
	}
	w.enlist()
}

// enlist registers the nodes that the servers do not know.
func (w *story) enlist() {
	for i := range storyNodes {
		if call(w, wire.NodeGet, &api.NodeRequest{NodeID: idOf(i)}).Node != nil {
			continue
		}
		call(w, wire.NodeRegister, &api.NodeRegisterRequest{Node: &api.Node{
			ID: idOf(i), SecretID: secretOf(i), Name: fmt.Sprint("n", i), Datacenter: "dc1", NodePool: "default",
			Status: api.NodeStatusReady, SchedulingEligibility: api.NodeSchedulingEligible,
			Attributes: map[string]string{"driver.raw_exec": "1"}, Meta: map[string]string{"half": fmt.Sprint(i % 2)},
			Drivers: map[string]*api.DriverInfo{"raw_exec": {Detected: true, Healthy: true}},
			NodeResources: &api.NodeResources{
				Cpu: api.NodeCpuResources{CpuShares: 1000}, Memory: api.NodeMemoryResources{MemoryMB: 1000}, Disk: api.NodeDiskResources{DiskMB: 10000},
			},
		}})
	}
}

var storyKinds = []string{api.JobTypeService, api.JobTypeBatch, api.JobTypeSystem, api.JobTypeSysbatch}

func jobID(k int) string { return fmt.Sprint(storyKinds[k%len(storyKinds)], k/len(storyKinds)) }

func runsOnce(j *api.Job) bool { return j.Type == api.JobTypeBatch || j.Type == api.JobTypeSysbatch }

func everywhere(j *api.Job) bool {
	return j.Type == api.JobTypeSystem || j.Type == api.JobTypeSysbatch
}

// draw makes up a job.
func (w *story) draw(k int) *api.Job {
	w.made++
	env := fmt.Sprint(w.made)
	if w.rnd.IntN(3) == 0 {
		env = "same"
	}
	g := &api.TaskGroup{Name: "g", Count: 1 + w.rnd.IntN(4), Tasks: []*api.Task{{
		Name: "t", Driver: "raw_exec", Config: map[string]any{"command": "x"}, Env: map[string]string{"K": env},
		Resources: &api.Resources{CPU: 50 + 50*w.rnd.IntN(4), MemoryMB: 20},
	}}}
	j := &api.Job{ID: jobID(k), Type: storyKinds[k%len(storyKinds)], Datacenters: []string{"dc1"}, Priority: 50 + 10*w.rnd.IntN(4), TaskGroups: []*api.TaskGroup{g}}
	if everywhere(j) {
		g.Count = 1
	}
	if !runsOnce(j) && w.rnd.IntN(3) > 0 {
		u := &api.UpdateStrategy{
			MaxParallel: 1 + w.rnd.IntN(2), HealthCheck: "task_states", MinHealthyTime: time.Millisecond,
			HealthyDeadline: time.Minute, ProgressDeadline: 2 * time.Minute, Canary: w.rnd.IntN(3), AutoRevert: w.rnd.IntN(2) == 0,
		}
		u.AutoPromote = u.Canary > 0 && w.rnd.IntN(2) == 0
		g.Update = u
	}
	if w.rnd.IntN(3) == 0 {
		g.Disconnect = &api.DisconnectStrategy{Replace: w.rnd.IntN(2) == 0, LostAfter: time.Duration(w.rnd.IntN(500)) * time.Millisecond}
	}
	if j.Type == api.JobTypeService && w.rnd.IntN(4) == 0 {
		j.Constraints = append(j.Constraints, &api.Constraint{Operand: api.ConstraintDistinctHosts})
	}
	if w.rnd.IntN(5) == 0 {
		j.Constraints = append(j.Constraints, &api.Constraint{LTarget: "${meta.half}", Operand: "=", RTarget: fmt.Sprint(w.rnd.IntN(2))})
	}
	return j
}

// act is one request of a user or an operator, or a node that comes or goes.
func (w *story) act() {
	k, i := w.rnd.IntN(storyJobs), w.rnd.IntN(storyNodes)
	id, node := jobID(k), idOf(i)
	switch w.rnd.IntN(23) {
	case 0, 1, 2, 3, 4:
		j := w.draw(k)
		w.tell("register %s: count %d, cpu %d, priority %d, env %v, update %+v", id, j.TaskGroups[0].Count, j.TaskGroups[0].Tasks[0].Resources.CPU, j.Priority, j.TaskGroups[0].Tasks[0].Env, j.TaskGroups[0].Update)
		call(w, wire.JobRegister, &api.JobRegisterRequest{Job: j})
	case 5:
		purge := w.rnd.IntN(2) == 0
		w.tell("deregister %s, purge %v", id, purge)
		call(w, wire.JobDeregister, &api.JobDeregisterRequest{JobID: id, Purge: purge})
	case 6, 7:
		count := int64(w.rnd.IntN(5))
		w.tell("scale %s to %d", id, count)
		call(w, wire.JobScale, &api.JobScaleRequest{JobID: id, Target: map[string]string{"Group": "g"}, Count: &count})
	case 8, 9, 10:
		over := func(a *api.Allocation) bool { return a.Terminal() && w.rnd.IntN(10) > 0 }
		if all := slices.DeleteFunc(slices.Clone(w.allocs()), over); len(all) > 0 {
			a := all[w.rnd.IntN(len(all))]
			w.tell("stop allocation %s of %s, which is %s", a.ID[:8], a.JobID, a.ClientStatus)
			call(w, wire.AllocStop, &api.AllocStopRequest{AllocID: a.ID})
		}
	case 11, 12:
		d := &api.DrainSpec{Deadline: []time.Duration{-1, 20 * time.Millisecond, 0}[w.rnd.IntN(3)], IgnoreSystemJobs: w.rnd.IntN(2) == 0}
		w.tell("drain n%d: %+v", i, d)
		call(w, wire.NodeDrain, &api.NodeDrainRequest{NodeID: node, DrainSpec: d})
	case 13, 14:
		w.tell("end the drain of n%d", i)
		call(w, wire.NodeDrain, &api.NodeDrainRequest{NodeID: node, MarkEligible: w.rnd.IntN(3) > 0})
	case 15:
		e := []string{api.NodeSchedulingEligible, api.NodeSchedulingIneligible}[w.rnd.IntN(2)]
		w.tell("n%d is %s", i, e)
		call(w, wire.NodeEligibility, &api.NodeEligibilityRequest{NodeID: node, Eligibility: e})
	case 16, 17:
		w.tell("n%d is down", i)
		w.hear(i, false)
		w.beat(i, api.NodeStatusDown)
	case 18:
		w.tell("n%d is up", i)
		w.hear(i, true)
	case 19:
		w.tell("revert %s", id)
		call(w, wire.JobRevert, &api.JobRevertRequest{JobID: id, JobVersion: uint64(w.rnd.IntN(5))})
	case 20:
		w.decide(id)
	case 21:
		w.tell("evaluate %s", id)
		call(w, wire.JobEvaluate, &api.JobEvaluateRequest{JobID: id, EvalOptions: api.EvalOptions{ForceReschedule: w.rnd.IntN(2) == 0}})
	case 22:
		w.tell("collect garbage")
		call(w, wire.SystemGC, &api.WriteRequest{})
		w.enlist()
	}
}

// decide ends what there is of a deployment, in one way or the other.
func (w *story) decide(job string) {
	d := call(w, wire.JobDeployment, &api.JobRequest{JobID: job}).Deployment
	switch {
	case d == nil:
	case w.rnd.IntN(2) == 0:
		w.tell("promote %s", job)
		call(w, wire.DeploymentPromote, &api.DeploymentPromoteRequest{DeploymentID: d.ID, All: true})
	default:
		w.tell("fail %s", job)
		call(w, wire.DeploymentFail, &api.DeploymentWriteRequest{DeploymentID: d.ID})
	}
}

func (w *story) beat(node int, status string) {
	call(w, wire.NodeHeartbeat, &api.NodeHeartbeatRequest{NodeID: idOf(node), NodeSecret: secretOf(node), Status: status})
}

func (w *story) hear(node int, heard bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down[node] = !heard
}

// heal ends all trouble.
func (w *story) heal() {
	w.mu.Lock()
	w.calm = true
	clear(w.down)
	w.mu.Unlock()
	for _, j := range call(w, wire.JobList, &api.JobListRequest{}).Jobs { // those that failed are tried again
		call(w, wire.JobEvaluate, &api.JobEvaluateRequest{JobID: j.ID, EvalOptions: api.EvalOptions{ForceReschedule: true}})
	}
	for i := range storyNodes {
		w.beat(i, api.NodeStatusReady)
		call(w, wire.NodeDrain, &api.NodeDrainRequest{NodeID: idOf(i), MarkEligible: true})
		call(w, wire.NodeEligibility, &api.NodeEligibilityRequest{NodeID: idOf(i), Eligibility: api.NodeSchedulingEligible})
	}
}

// again changes all jobs that go on: that comes through whatever was before.
func (w *story) again() {
	for _, j := range w.jobs() {
		if j.Stop || runsOnce(j) {
			continue
		}
		w.made++
		next, g, t := *j, *j.TaskGroups[0], *j.TaskGroups[0].Tasks[0]
		t.Env = map[string]string{"K": fmt.Sprint("again ", w.made)}
		g.Tasks, next.TaskGroups = []*api.Task{&t}, []*api.TaskGroup{&g}
		if g.Update != nil {
			u := *g.Update
			u.AutoPromote = u.Canary > 0
			g.Update = &u
		}
		call(w, wire.JobRegister, &api.JobRegisterRequest{Job: &next})
	}
}
