package plan

import (
	"fmt"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/deployments/tally"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/hostvolumes/hostview"
	jobs "github.com/open-nomad/open-nomad/nomad/jobs/ledger"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

//go:generate go run -modfile=../../tools/go.mod ../../cmd/nomad/codec.go . commands.go
//msgp:limit arrays:1000000 maps:1000000
//msgp:ignore Refused

// Commands registers the package's commands.
func Commands(r *fsm.Registry) {
	r.Register(func() fsm.Command { return &Apply{} })
}

// Apply commits plans. Its result is a []*Refused with one element per plan: nil for a committed one.
type Apply struct {
	Plans []*Entry `msg:",omitempty"`
}

// Entry is one plan. It names the job's version instead of carrying the job.
type Entry struct {
	Namespace   string  `msg:",omitempty"`
	JobID       string  `msg:",omitempty"`
	Version     uint64  `msg:",omitempty"`
	CreateIndex uint64  `msg:",omitempty"`
	EvalID      string  `msg:",omitempty"`
	Stops       []*Stop `msg:",omitempty"`
	// Places are new allocations; Job and indexes are filled in when applied.
	Places []*api.Allocation `msg:",omitempty"`
	// Packed are the same as [pack] makes them; what was packed comes before Places.
	Packed []byte `msg:",omitempty,limit=67108864"`
	// Updates are allocations that go over to the job's version as they are.
	Updates []string `msg:",omitempty"`
	// Olds are those of Places that are of an older version, by id: the new one is not promoted yet.
	Olds         map[string]uint64 `msg:",omitempty"`
	AllocUpdates []*AllocUpdate    `msg:",omitempty"`
	// Evals are written when the plan is committed.
	Evals []*api.Evaluation `msg:",omitempty"`
	// Deployment is created, or its groups and what they want are changed.
	Deployment        *api.Deployment               `msg:",omitempty"`
	DeploymentUpdates []*api.DeploymentStatusUpdate `msg:",omitempty"`
}

// Stop is the stop or eviction of an allocation.
type Stop struct {
	ID           string `msg:",omitempty"`
	Why          string `msg:",omitempty"`
	ClientStatus string `msg:",omitempty"`
	// EvictedBy is the allocation that takes the place.
	EvictedBy string `msg:",omitempty"`
}

// AllocUpdate changes what the servers remember of an allocation.
type AllocUpdate struct {
	ID                string            `msg:",omitempty"`
	FollowupEvalID    string            `msg:",omitempty"`
	ClientStatus      string            `msg:",omitempty"`
	ClientDescription string            `msg:",omitempty"`
	AllocStates       []*api.AllocState `msg:",omitempty"`
	// LastReschedule is the outcome of the attempt to reschedule a failed allocation.
	LastReschedule string `msg:",omitempty"`
}

// Refused holds why a plan was not committed, per node; "" is the whole plan.
type Refused struct{ Reasons map[string]string }

// Kind implements [fsm.Command].
func (*Apply) Kind() fsm.Kind { return fsm.KindPlanApply }

// Apply implements [fsm.Command].
func (c *Apply) Apply(tx *state.Txn) (any, error) {
	answers := make([]*Refused, len(c.Plans))
	for i, e := range c.Plans {
		refused, err := e.apply(tx)
		if err != nil {
			return nil, fmt.Errorf("plan of evaluation %s: %w", e.EvalID, err)
		}
		answers[i] = refused
	}
	return answers, nil
}

func (e *Entry) apply(tx *state.Txn) (*Refused, error) {
	job := e.job(tx)
	places, err := e.placements(tx)
	if err != nil {
		return nil, err
	}
	places, stops := e.needed(tx, job, places)
	stopping := ids(stops)
	if refused := e.guard(tx, job, places, stopping); refused != nil {
		return refused, nil
	}
	e.deployments(tx)
	counters := tally.New(tx)
	for _, s := range stops {
		if err := stop(tx, s); err != nil {
			return nil, err
		}
	}
	for _, a := range e.AllocUpdates {
		if err := updateAlloc(tx, a); err != nil {
			return nil, err
		}
	}
	e.update(tx, job, counters)
	for _, a := range places {
		if err := place(tx, a, stopping, counters); err != nil {
			return nil, err
		}
	}
	counters.Write()
	for _, ev := range e.Evals {
		putEval(tx, ev)
	}
	return nil, nil
}

// placements returns the new allocations as rows that are not shared.
func (e *Entry) placements(tx *state.Txn) ([]*api.Allocation, error) {
	places, err := unpack(e.Packed, tx.Alike())
	if err != nil {
		return nil, err
	}
	for _, a := range e.Places {
		row := *a
		places = append(places, &row)
	}
	return places, nil
}

// needed leaves out placements that have nothing to do any more, and the evictions that were to free capacity for them.
func (e *Entry) needed(tx *state.Txn, job *api.Job, places []*api.Allocation) ([]*api.Allocation, []*Stop) {
	needless := map[string]bool{}
	places = slices.DeleteFunc(places, func(a *api.Allocation) bool {
		if !e.needless(tx, job, a) {
			return false
		}
		needless[a.ID] = true
		return true
	})
	if len(needless) == 0 {
		return places, e.Stops
	}
	return places, slices.DeleteFunc(slices.Clone(e.Stops), func(s *Stop) bool { return needless[s.EvictedBy] })
}

// needless reports whether what the placement is to do was finished by its predecessor, before the plan could move it.
func (e *Entry) needless(tx *state.Txn, job *api.Job, a *api.Allocation) bool {
	old := tx.Alloc(a.PreviousAllocation)
	if old == nil || old.Job == nil || job == nil || !reconcile.RunsOnce(job) || old.Job.Version < job.Version || old.Job.CreateIndex != job.CreateIndex {
		return false
	}
	i := slices.IndexFunc(e.Stops, func(s *Stop) bool { return s.ID == old.ID })
	return i >= 0 && !old.ServerTerminal() && e.Stops[i].tooLate(tx, old)
}

func ids(stops []*Stop) map[string]bool {
	m := make(map[string]bool, len(stops))
	for _, s := range stops {
		m[s.ID] = true
	}
	return m
}

// job is the version that the plan was made for; nil when it was removed or stopped.
func (e *Entry) job(tx *state.Txn) *api.Job {
	now := tx.Job(e.Namespace, e.JobID)
	if now == nil || now.CreateIndex != e.CreateIndex {
		return nil
	}
	if v := tx.JobVersion(e.Namespace, e.JobID, e.Version); v != nil && v.CreateIndex == e.CreateIndex {
		return v
	}
	if now.Version == e.Version {
		return now
	}
	return nil
}

// versionOf is the version of the job that a placed allocation is of; nil when it is forgotten.
func (e *Entry) versionOf(tx *state.Txn, placed *api.Allocation, job *api.Job) *api.Job {
	version, old := e.Olds[placed.ID]
	if !old {
		return job
	}
	if v := tx.JobVersion(e.Namespace, e.JobID, version); v != nil && v.CreateIndex == e.CreateIndex {
		return v
	}
	if prev := tx.Alloc(placed.PreviousAllocation); prev != nil && prev.Job != nil && prev.Job.Version == version {
		return prev.Job
	}
	for a := range tx.AllocsByJob(e.Namespace, e.JobID) { // the version may be kept no longer than its allocations are
		if a.Job != nil && a.Job.Version == version && a.Job.CreateIndex == e.CreateIndex {
			return a.Job
		}
	}
	return nil
}

// guard refuses what other commands made impossible since the plan was verified, and gives each placement its
// job.
func (e *Entry) guard(tx *state.Txn, job *api.Job, places []*api.Allocation, stopping map[string]bool) *Refused {
	if job == nil && len(places)+len(e.Updates) > 0 {
		return &Refused{map[string]string{"": fmt.Sprintf("job %q version %d was removed", e.JobID, e.Version)}}
	}
	if now := tx.Job(e.Namespace, e.JobID); len(places) > 0 && now.Stop {
		return &Refused{map[string]string{"": fmt.Sprintf("job %q was stopped", e.JobID)}}
	}
	var taken []*api.VolumeClaim // what the placements take is judged together, as it is taken
	for _, a := range places {
		if a.Job = e.versionOf(tx, a, job); a.Job == nil {
			return &Refused{map[string]string{a.NodeID: fmt.Sprintf("job %q version %d was removed", e.JobID, e.Olds[a.ID])}}
		}
		n := tx.Node(a.NodeID)
		if n == nil || n.Status != api.NodeStatusReady {
			return &Refused{map[string]string{a.NodeID: "node is not ready"}}
		}
		if !feasible.AcceptsGroup(tx, n, a.Job, a.Group()) { // its drain may be over: nothing comes any more
			return &Refused{map[string]string{a.NodeID: notEligible}}
		}
		if why := hostview.Missing(tx, n, a); why != "" { // it is being deleted, or its sticky one is another
			return &Refused{map[string]string{a.NodeID: why}}
		}
		nameAs(n, a)
		claims, err := ledger.Beside(tx, a, stopping, taken)
		if err != nil {
			return &Refused{map[string]string{a.NodeID: err.Error()}}
		}
		taken = append(taken, claims...)
	}
	return nil
}

// nameAs lets a placement share the texts that name its node.
func nameAs(n *api.Node, a *api.Allocation) {
	a.NodeID = n.ID
	if a.NodeName == n.Name {
		a.NodeName = n.Name
	}
	if a.Metrics == nil {
		return
	}
	for _, s := range a.Metrics.ScoreMetaData {
		if s != nil && s.NodeID == n.ID {
			s.NodeID = n.ID
		}
	}
}

// tooLate reports whether the allocation's work was done before anybody could take it away.
func (s *Stop) tooLate(tx *state.Txn, old *api.Allocation) bool {
	moves := s.EvictedBy != "" || s.Why == reconcile.Migrating || s.ClientStatus == api.AllocClientStatusLost && old.Job != nil && reconcile.RunsOnce(old.Job)
	return moves && reconcile.Finished(old)
}

func stop(tx *state.Txn, s *Stop) error {
	old := tx.Alloc(s.ID)
	if old == nil {
		return nil
	}
	if s.tooLate(tx, old) {
		return nil
	}
	a := *old
	a.DesiredStatus, a.DesiredDescription = api.AllocDesiredStatusStop, s.Why
	if s.EvictedBy != "" {
		a.DesiredStatus, a.PreemptedByAllocation = api.AllocDesiredStatusEvict, s.EvictedBy
	}
	// The node's last report counts: the allocation may have ended well while the plan was made.
	if s.ClientStatus != "" && !old.ClientTerminal() {
		a.ClientStatus = s.ClientStatus
	}
	return put(tx, &a)
}

func put(tx *state.Txn, a *api.Allocation) error {
	a.AllocModifyIndex, a.ModifyTime = tx.Index(), tx.Now().UnixNano()
	tx.PutAlloc(a)
	return ledger.AllocChanged(tx, a)
}

func updateAlloc(tx *state.Txn, m *AllocUpdate) error {
	old := tx.Alloc(m.ID)
	if old == nil || m.ClientStatus != "" && old.ClientTerminal() {
		return nil
	}
	a := *old
	if m.FollowupEvalID != "" {
		a.FollowupEvalID = m.FollowupEvalID
	}
	if m.LastReschedule != "" {
		t := api.RescheduleTracker{}
		if a.RescheduleTracker != nil {
			t = *a.RescheduleTracker
		}
		t.LastReschedule, a.RescheduleTracker = m.LastReschedule, &t
	}
	if m.ClientStatus != "" {
		a.ClientStatus, a.ClientDescription, a.AllocStates = m.ClientStatus, m.ClientDescription, m.AllocStates
		return put(tx, &a)
	}
	tx.PutAlloc(&a)
	return nil
}

// update takes allocations over to the job's version, and into the deployment of that version. What
// their health was under another deployment does not count there.
func (e *Entry) update(tx *state.Txn, job *api.Job, counters *tally.Sheet) {
	if len(e.Updates) == 0 {
		return
	}
	d := e.rollout(tx)
	for _, id := range e.Updates {
		old := tx.Alloc(id)
		if old == nil {
			continue
		}
		a := *old
		a.Job, a.EvalID = job, e.EvalID
		if d != nil && d.TaskGroups[a.TaskGroup] != nil && a.DeploymentID != d.ID {
			a.DeploymentID, a.DeploymentStatus = d.ID, nil
		}
		a.AllocModifyIndex, a.ModifyTime = tx.Index(), tx.Now().UnixNano()
		tx.PutAlloc(&a)
		counters.AllocChanged(old, &a)
	}
}

// rollout is the active deployment of the plan's version of the job.
func (e *Entry) rollout(tx *state.Txn) *api.Deployment {
	for d := range tx.DeploymentsByJob(e.Namespace, e.JobID) {
		if d.JobVersion == e.Version && d.JobCreateIndex == e.CreateIndex && d.Active() {
			return d
		}
	}
	return nil
}

func place(tx *state.Txn, a *api.Allocation, stopping map[string]bool, counters *tally.Sheet) error {
	a.AllocModifyIndex = tx.Index()
	a.CreateTime, a.ModifyTime = tx.Now().UnixNano(), tx.Now().UnixNano()
	tx.PutAlloc(a)
	counters.AllocChanged(nil, a)
	if n := tx.Node(a.NodeID); n != nil {
		for _, c := range hostview.Claims(tx, n, a) {
			tx.PutHostVolumeClaim(c)
		}
	}
	if a.PreviousAllocation != "" {
		if prev := tx.Alloc(a.PreviousAllocation); prev != nil {
			linked := *prev
			linked.NextAllocation = a.ID
			tx.PutAlloc(&linked)
		}
	}
	return ledger.Take(tx, a, stopping)
}

// deployments creates the plan's deployment or changes what it wants, and ends others.
func (e *Entry) deployments(tx *state.Txn) {
	now := tx.Now().UnixNano()
	if e.Deployment != nil {
		d := tally.Copy(e.Deployment)
		d.CreateTime = now
		if old := tx.Deployment(d.ID); old != nil {
			d = withWanted(tally.Copy(old), e.Deployment)
		}
		d.ModifyTime = now
		tx.PutDeployment(d)
	}
	for _, u := range e.DeploymentUpdates {
		if old := tx.Deployment(u.DeploymentID); old != nil && old.Active() {
			d := *old
			d.Status, d.StatusDescription, d.ModifyTime = u.Status, u.StatusDescription, now
			tx.PutDeployment(&d)
			if d.Status == api.DeploymentStatusSuccessful {
				settle(tx, &d)
			}
		}
	}
}

// settle marks the version of a successful deployment as one to go back to.
func settle(tx *state.Txn, d *api.Deployment) {
	if v := tx.JobVersion(d.Namespace, d.JobID, d.JobVersion); v != nil && v.CreateIndex == d.JobCreateIndex {
		_ = jobs.MarkStable(tx, d.Namespace, d.JobID, d.JobVersion, true) // the version is there
	}
}

// withWanted copies the wanted state of the plan's groups into an existing deployment.
func withWanted(d, wanted *api.Deployment) *api.Deployment {
	for name, w := range wanted.TaskGroups {
		if g := d.TaskGroups[name]; g != nil {
			g.DesiredTotal, g.DesiredCanaries = w.DesiredTotal, w.DesiredCanaries
			continue
		}
		g := *w
		d.TaskGroups[name] = &g
	}
	return d
}

// putEval writes an evaluation unless it was cancelled or finished meanwhile.
func putEval(tx *state.Txn, e *api.Evaluation) {
	if old := tx.Eval(e.ID); old != nil && old.Terminal() {
		return
	}
	next := *e
	if next.CreateTime == 0 {
		next.CreateTime = tx.Now().UnixNano()
	}
	next.ModifyTime = tx.Now().UnixNano()
	tx.PutEval(&next)
}

// entryOf is the log form of a plan.
func entryOf(p *api.Plan, evals []*api.Evaluation) *Entry {
	e := &Entry{EvalID: p.EvalID, Evals: evals, Deployment: p.Deployment, DeploymentUpdates: p.DeploymentUpdates}
	if p.Job != nil {
		e.Namespace, e.JobID, e.Version, e.CreateIndex = p.Job.Namespace, p.Job.ID, p.Job.Version, p.Job.CreateIndex
	}
	for _, node := range sortedNodes(p) {
		for _, list := range [][]*api.Allocation{p.NodeUpdate[node], p.NodePreemptions[node]} {
			for _, a := range list {
				e.Stops = append(e.Stops, &Stop{a.ID, a.DesiredDescription, lostOnly(a), a.PreemptedByAllocation})
			}
		}
		for _, a := range p.NodeAllocation[node] {
			switch {
			case isNew(a) && a.Job != nil:
				e.placeOld(a)
			case isNew(a):
				e.Places = append(e.Places, a)
			case a.Job == nil:
				e.Updates = append(e.Updates, a.ID)
			default:
				e.AllocUpdates = append(e.AllocUpdates, allocUpdateOf(a))
			}
		}
	}
	return e
}

func (e *Entry) placeOld(a *api.Allocation) {
	if e.Olds == nil {
		e.Olds = map[string]uint64{}
	}
	e.Olds[a.ID] = a.Job.Version
	slim := *a
	slim.Job = nil
	e.Places = append(e.Places, &slim)
}

func allocUpdateOf(a *api.Allocation) *AllocUpdate {
	m := &AllocUpdate{
		ID: a.ID, FollowupEvalID: a.FollowupEvalID, ClientStatus: unknownOnly(a),
		ClientDescription: a.ClientDescription, AllocStates: a.AllocStates,
	}
	if t := a.RescheduleTracker; t != nil && t.LastReschedule == reconcile.NoPlacement {
		m.LastReschedule = t.LastReschedule
	}
	return m
}

// isNew reports whether the allocation is a placement and no update: only the state sets a create index.
func isNew(a *api.Allocation) bool { return a.CreateIndex == 0 }

// lostOnly and unknownOnly are the client statuses that the servers may decide.
func lostOnly(a *api.Allocation) string {
	if a.ClientStatus == api.AllocClientStatusLost {
		return a.ClientStatus
	}
	return ""
}

func unknownOnly(a *api.Allocation) string {
	if a.ClientStatus == api.AllocClientStatusUnknown {
		return a.ClientStatus
	}
	return ""
}
