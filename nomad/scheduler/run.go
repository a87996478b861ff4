package scheduler

import (
	"cmp"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/scheduler/fleet"
)

// run is the processing of one evaluation.
type run struct {
	in   Input
	out  *Output
	job  *api.Job // nil when gone
	live bool     // the job exists and is not stopped
	edit *fleet.Edit
	// allocs are all allocations of the job, by group.
	allocs map[string][]*api.Allocation
	// gone are the allocations that the plan stops.
	gone map[string]bool
	// leave are the allocations that leave their volumes together, stopped those of them that the plan stops for another one.
	leave   []*api.Allocation
	stopped map[string]bool
	// outdated are the allocations that are to be replaced, now or later, by group.
	outdated map[string][]*api.Allocation
	// deployments are all of the job; current is the one of its version, or nil.
	deployments []*api.Deployment
	current     *api.Deployment
	// statics remember the rules per group for in-place updates.
	statics map[string]*feasible.Static
	volumes *feasible.Volumes
	oversub bool
	spread  bool
	// evicted counts the evictions of the plan by job and group.
	evicted map[string]int
	// surveys are those that the placers of this run took.
	surveys []*survey
	// near are the allocations that are too near to others of the job, by group and id.
	near map[string]map[string]bool
	// refused are the groups of a system job that found no capacity, by node.
	refused map[string][]string
	// asked is the earliest time that each follow-up was asked for.
	asked []time.Time
	// ownClasses says that the run may change out.Classes.
	ownClasses bool
}

func newRun(in Input) *run {
	if in.Eval.WaitUntil.After(in.Now) { // by the clock of who handed it out its time has come
		in.Now = in.Eval.WaitUntil
	}
	r := &run{
		in: in, job: in.Job, edit: in.Fleet.Edit(), gone: map[string]bool{}, stopped: map[string]bool{},
		allocs: map[string][]*api.Allocation{},
	}
	if r.job == nil {
		r.job = in.View.Job(in.Eval.Namespace, in.Eval.JobID)
	}
	r.live = r.job != nil && !r.job.Stop
	for a := range in.View.AllocsByJob(in.Eval.Namespace, in.Eval.JobID) {
		r.allocs[a.TaskGroup] = append(r.allocs[a.TaskGroup], a)
	}
	r.configure()
	r.volumes = feasible.NewVolumes(in.View, in.Eval.Namespace, r.gone)
	r.out = &Output{
		Plan: &api.Plan{
			EvalID: in.Eval.ID, Priority: in.Eval.Priority, Job: r.job, SnapshotIndex: in.View.Index(),
			NodeUpdate: map[string][]*api.Allocation{}, NodeAllocation: map[string][]*api.Allocation{},
			Annotations: &api.PlanAnnotations{DesiredTGUpdates: map[string]*api.DesiredUpdates{}},
		},
		Failed: map[string]*api.AllocationMetric{}, Queued: map[string]int{}, Classes: map[string]bool{},
	}
	if r.job != nil {
		r.out.Plan.AllAtOnce = r.job.AllAtOnce
	}
	r.findDeployment()
	return r
}

// configure takes over how the cluster places, and what the job's pool says instead.
func (r *run) configure() {
	c := r.in.View.SchedulerConfig()
	algorithm, oversub := c.SchedulerAlgorithm, c.MemoryOversubscriptionEnabled
	if r.job != nil {
		if p := r.in.View.NodePool(cmp.Or(r.job.NodePool, api.NodePoolDefault)); p != nil && p.SchedulerConfiguration != nil {
			algorithm = cmp.Or(p.SchedulerConfiguration.SchedulerAlgorithm, algorithm)
			oversub = oversub || p.SchedulerConfiguration.MemoryOversubscriptionEnabled
		}
	}
	r.oversub, r.spread = oversub, (algorithm == api.SchedulerAlgorithmSpread) != r.in.Apart
}

func (r *run) kind() string {
	if r.job != nil && r.job.Type != "" {
		return r.job.Type
	}
	return r.in.Eval.Type
}

// groups are the names of all groups that the job has or has allocations of, in the job's order.
func (r *run) groups() []string {
	var names []string
	if r.live {
		for _, g := range r.job.TaskGroups {
			names = append(names, g.Name)
		}
	}
	var old []string
	for name := range r.allocs {
		if !slices.Contains(names, name) {
			old = append(old, name)
		}
	}
	slices.Sort(old)
	return append(names, old...)
}

// queue says that nothing of the group waits yet.
func (r *run) queue(name string) { r.out.Queued[name] = 0 }

// stop adds the stop of an allocation to the plan and to the overlay.
func (r *run) stop(a *api.Allocation, why, clientStatus string) {
	stopped := *a
	stopped.Job = nil
	stopped.DesiredStatus, stopped.DesiredDescription = api.AllocDesiredStatusStop, why
	if clientStatus != "" {
		stopped.ClientStatus = clientStatus
	}
	nodes := r.out.Plan.NodeUpdate
	nodes[a.NodeID] = append(nodes[a.NodeID], &stopped)
	r.vacate(a)
}

// vacate frees in the overlay what the allocation uses.
func (r *run) vacate(a *api.Allocation) {
	r.gone[a.ID] = true
	if i := r.edit.Find(a.NodeID); i >= 0 {
		r.edit.Remove(i, a.ID)
	}
}

// unvacate takes vacate back.
func (r *run) unvacate(a *api.Allocation) {
	delete(r.gone, a.ID)
	if i := r.edit.Find(a.NodeID); i >= 0 && !a.ClientTerminal() {
		r.edit.Add(i, a.ID, fleet.LoadOfAlloc(a))
	}
}

// expect allocates what the plan needs for new allocations, most of which will be on nodes of their own.
func (r *run) expect(n int) {
	if p := r.out.Plan; n > 8 && len(p.NodeAllocation) == 0 {
		p.NodeAllocation = make(map[string][]*api.Allocation, min(n, r.in.Fleet.Len()))
	}
}

// add puts an allocation into the plan: a new one, or one that is updated in place.
func (r *run) add(a *api.Allocation) {
	nodes := r.out.Plan.NodeAllocation
	nodes[a.NodeID] = append(nodes[a.NodeID], a)
}

// followUpShare is how far apart requests for a follow-up may be to share one.
const followUpShare = 5 * time.Second

// followUp is the id of an evaluation at that time; requests close to each other share the latest.
func (r *run) followUp(at time.Time, trigger, why string) string {
	for i, e := range r.out.FollowUps {
		first, last := r.asked[i], e.WaitUntil
		if at.Before(first) {
			first = at
		}
		if at.After(last) {
			last = at
		}
		if e.TriggeredBy == trigger && last.Sub(first) <= followUpShare {
			r.asked[i], e.WaitUntil = first, last
			return e.ID
		}
	}
	e := &api.Evaluation{
		ID: r.in.NewID(), Namespace: r.in.Eval.Namespace, JobID: r.in.Eval.JobID, Type: r.kind(),
		Priority: r.in.Eval.Priority, TriggeredBy: trigger, StatusDescription: why,
		Status: api.EvalStatusPending, WaitUntil: at, PreviousEval: r.in.Eval.ID,
		JobModifyIndex: r.in.Eval.JobModifyIndex,
		CreateTime:     r.in.Now.UnixNano(), ModifyTime: r.in.Now.UnixNano(),
	}
	r.out.FollowUps, r.asked = append(r.out.FollowUps, e), append(r.asked, at)
	return e.ID
}

// full notes that a group of a system job found no capacity on the node.
func (r *run) full(node, group string) {
	if r.refused == nil {
		r.refused = map[string][]string{}
	}
	r.refused[node] = append(r.refused[node], group)
	r.out.FullNodes = append(r.out.FullNodes, node)
}

// watch finds the evaluations of the job that wait for one node each. Those that were refused before another
// placed everything are about to be cancelled, and those that were not told of a group do not wait for it.
func (r *run) watch() {
	if len(r.out.FullNodes) == 0 {
		return
	}
	var waiting []*api.Evaluation
	placed := uint64(0)
	for e := range r.in.View.EvalsByJob(r.in.Eval.Namespace, r.in.Eval.JobID) {
		switch {
		case e.Status == api.EvalStatusBlocked && e.NodeID != "" && e.ID != r.in.Eval.ID:
			waiting = append(waiting, e)
		case e.PlacedAll():
			placed = max(placed, e.SnapshotIndex)
		}
	}
	r.out.Watched = map[string]string{}
	for _, e := range waiting {
		untold := func(group string) bool { return e.FailedTGAllocs[group] == nil }
		if e.SnapshotIndex >= placed && !slices.ContainsFunc(r.refused[e.NodeID], untold) {
			r.out.Watched[e.NodeID] = e.ID
		}
	}
}
