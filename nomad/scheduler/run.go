package scheduler

import (
	"cmp"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/scheduler/fleet"
	"github.com/open-nomad/open-nomad/nomad/scheduler/quota"
)

// run is the processing of one evaluation.
type run struct {
	in   Input
	out  *Output
	job  *api.Job // nil when deleted
	live bool     // the job exists and is not stopped
	edit *fleet.Edit
	// allocs are all allocations of the job, by group.
	allocs map[string][]*api.Allocation
	// gone are the allocations that the plan stops, by ID.
	gone map[string]bool
	// leavingTogether are the allocations that release their volumes together; stoppedTogether are those of them that the
	// plan stopped with another one.
	leavingTogether []*api.Allocation
	stoppedTogether map[string]bool
	// outdated are the allocations that are to be replaced, now or later, by group.
	outdated map[string][]*api.Allocation
	// deployments are all of the job; current is the one of its version, or nil.
	deployments []*api.Deployment
	current     *api.Deployment
	// statics caches the rules per group for in-place updates.
	statics map[string]*feasible.Static
	volumes *feasible.Volumes
	// quota is what the quota of the job's namespace permits; nil without one.
	quota   *quota.Book
	oversub bool
	spread  bool
	// evicted counts the evictions of the plan by job and group.
	evicted map[string]int
	// rankings are the rankings that the placers of this run use.
	rankings []*ranking
	// tooNear are the allocations that violate distinct constraints, by group and ID.
	tooNear map[string]map[string]bool
	// refused are the groups of a system job that found no capacity, by node.
	refused map[string][]string
	// asked is the earliest requested time of each follow-up.
	asked []time.Time
	// ownClasses reports whether the run may modify out.Classes.
	ownClasses bool
}

func newRun(in Input) *run {
	if in.Eval.WaitUntil.After(in.Now) { // it is due by the clock of the broker
		in.Now = in.Eval.WaitUntil
	}
	r := &run{
		in: in, job: in.Job, edit: in.Fleet.Edit(), gone: map[string]bool{}, stoppedTogether: map[string]bool{},
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
	r.quota = in.Quotas.Open(in.View, in.Eval.Namespace)
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

// configure reads the scheduler configuration of the cluster and the overrides of the job's node pool.
func (r *run) configure() {
	c := r.in.View.SchedulerConfig()
	algorithm, oversub := c.SchedulerAlgorithm, c.MemoryOversubscriptionEnabled
	if r.job != nil {
		if p := r.in.View.NodePool(cmp.Or(r.job.NodePool, api.NodePoolDefault)); p != nil && p.SchedulerConfiguration != nil {
			algorithm = cmp.Or(p.SchedulerConfiguration.SchedulerAlgorithm, algorithm)
			oversub = oversub || p.SchedulerConfiguration.MemoryOversubscriptionEnabled
		}
	}
	r.oversub, r.spread = oversub, (algorithm == api.SchedulerAlgorithmSpread) != r.in.OppositeAlgorithm
}

func (r *run) kind() string {
	if r.job != nil && r.job.Type != "" {
		return r.job.Type
	}
	return r.in.Eval.Type
}

// groups returns the names of the job's groups in order, then those of removed groups with allocations.
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

// resetQueued starts the group's count of queued allocations at zero.
func (r *run) resetQueued(name string) { r.out.Queued[name] = 0 }

// stop adds the stop of an allocation to the plan and frees its resources.
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

// vacate frees the resources of the allocation in the fleet edit.
func (r *run) vacate(a *api.Allocation) {
	if r.quota != nil && !r.gone[a.ID] {
		r.quota.Count(a, -1)
	}
	r.gone[a.ID] = true
	if i := r.edit.Find(a.NodeID); i >= 0 {
		r.edit.Remove(i, a.ID)
	}
}

// unvacate undoes vacate.
func (r *run) unvacate(a *api.Allocation) {
	if r.quota != nil && r.gone[a.ID] {
		r.quota.Count(a, 1)
	}
	delete(r.gone, a.ID)
	if i := r.edit.Find(a.NodeID); i >= 0 && !a.ClientTerminal() {
		r.edit.Add(i, a.ID, fleet.LoadOfAlloc(a))
	}
}

// growPlan allocates space for n new allocations, most of which will be on distinct nodes.
func (r *run) growPlan(n int) {
	if p := r.out.Plan; n > 8 && len(p.NodeAllocation) == 0 {
		p.NodeAllocation = make(map[string][]*api.Allocation, min(n, r.in.Fleet.Len()))
	}
}

// add adds an allocation to the plan: a new one, or one that is updated in place.
func (r *run) add(a *api.Allocation) {
	nodes := r.out.Plan.NodeAllocation
	nodes[a.NodeID] = append(nodes[a.NodeID], a)
}

// followUpShare is the time span within which requests share one follow-up evaluation.
const followUpShare = 5 * time.Second

// followUp returns the ID of an evaluation at that time. Requests close to each other share one, at the latest time.
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

// addFullNode records that a group of a system job found no capacity on the node.
func (r *run) addFullNode(node, group string) {
	if r.refused == nil {
		r.refused = map[string][]string{}
	}
	r.refused[node] = append(r.refused[node], group)
	r.out.FullNodes = append(r.out.FullNodes, node)
}

// findWatched finds the job's blocked evaluations that wait for one node each. It skips those older than an evaluation
// that placed everything, because they are about to be cancelled, and those that do not cover a refused group.
func (r *run) findWatched() {
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
		uncovered := func(group string) bool { return e.FailedTGAllocs[group] == nil }
		if e.SnapshotIndex >= placed && !slices.ContainsFunc(r.refused[e.NodeID], uncovered) {
			r.out.Watched[e.NodeID] = e.ID
		}
	}
}
