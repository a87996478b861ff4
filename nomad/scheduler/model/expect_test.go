package model_test

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// book is what the test knows of the step under way.
type book struct {
	before *state.Txn
	// ended are allocations that a client or a user ended; drained nodes that must be empty.
	ended, drained map[string]bool
	// closed are nodes that were made ineligible at some time of the step.
	closed map[string]bool
	// preempted says who might evict at any time of the step.
	preempts []func(kind string) bool
	// byHand are deployments that a user failed.
	byHand map[string]bool
}

func newBook() *book {
	return &book{ended: map[string]bool{}, drained: map[string]bool{}, closed: map[string]bool{}, byHand: map[string]bool{}}
}

// begin opens the page of a step.
func (w *world) begin() {
	w.before = w.store.Read()
	clear(w.ended)
	clear(w.drained)
	clear(w.closed)
	w.log.meanwhile(nil)
	w.preempts = nil
	w.mayPreempt()
}

// mayPreempt notes the configuration as it is now.
func (w *world) mayPreempt() {
	tx := w.store.Read()
	w.preempts = append(w.preempts, func(kind string) bool { return evicts(tx, kind) })
}

// legal checks what must hold at any time.
func (w *world) legal(tx *state.Txn) error {
	for n := range tx.Nodes() {
		came, used := uint64(math.MaxUint64), int64(0)
		for a := range tx.AllocsByNode(n.ID) {
			if a.CreateIndex > w.before.Index() {
				came = min(came, a.CreateIndex)
			}
		}
		for a := range tx.AllocsByNode(n.ID) {
			// What a plan stops gives its capacity to what the same plan places. A later one may stop it once more.
			leaves := a.DesiredStatus != api.AllocDesiredStatusRun && a.AllocModifyIndex >= came
			if !a.ClientTerminal() && !leaves {
				used += cpuOf(a.Job, a.TaskGroup)
			}
		}
		if used > n.NodeResources.Cpu.CpuShares {
			return fmt.Errorf("node %s has %d MHz and gives %d", n.ID, n.NodeResources.Cpu.CpuShares, used)
		}
	}
	for j := range tx.Jobs("default") {
		active := 0
		for d := range tx.DeploymentsByJob("default", j.ID) {
			if d.Active() {
				active++
			}
		}
		if active > 1 {
			return fmt.Errorf("job %s has %d deployments under way", j.ID, active)
		}
		if err := w.paced(tx, j); err != nil {
			return err
		}
	}
	return nil
}

// paced checks that a roll-out keeps all but max_parallel of what served when the step began. Canaries that nobody
// promoted are beside it.
func (w *world) paced(tx *state.Txn, j *api.Job) error {
	old := w.before.Job("default", j.ID)
	if old == nil || j.Stop || j.Type != api.JobTypeService || len(w.ended)+len(w.drained) > 0 {
		return nil
	}
	for _, g := range j.TaskGroups {
		was, may := old.Group(g.Name), g.Update.MaxParallel
		if was == nil || may == 0 || was.Count != g.Count || workOf(old, g.Name) == workOf(j, g.Name) {
			continue
		}
		serving := map[string]bool{}
		for _, a := range live(tx, j.ID) {
			if s := a.DeploymentStatus; a.TaskGroup == g.Name && (lives(w.before.Alloc(a.ID)) || s != nil && s.Healthy != nil && *s.Healthy) {
				serving[a.Name] = true
			}
		}
		served := 0
		for _, a := range live(w.before, j.ID) {
			if s := a.DeploymentStatus; s != nil && s.Canary {
				continue
			}
			if row := tx.Alloc(a.ID); a.TaskGroup == g.Name && row.DesiredStatus != api.AllocDesiredStatusEvict && onLivingNode(tx, a) {
				served++
			}
		}
		if served == g.Count && served-len(serving) > may {
			return fmt.Errorf("job %s: %d of %d serve, max_parallel is %d", j.ID, len(serving), served, may)
		}
	}
	return nil
}

func onLivingNode(tx *state.Txn, a *api.Allocation) bool {
	n := tx.Node(a.NodeID)
	return n != nil && n.Status == api.NodeStatusReady
}

// verify compares what there is at rest with what the specification says of the step.
func (w *world) verify() error {
	after := w.store.Read()
	for e := range after.Evals("default") {
		if e.Status == api.EvalStatusPending && e.WaitUntil.IsZero() {
			return fmt.Errorf("evaluation %s of %s by %s is not processed", e.ID, e.JobID, e.TriggeredBy)
		}
	}
	if n := w.evals.MissedWakes(); n > 0 {
		return fmt.Errorf("%d evaluations could run and nobody had woken them", n)
	}
	ids := map[string]bool{}
	for _, tx := range []*state.Txn{w.before, after} {
		for j := range tx.Jobs("default") {
			ids[j.ID] = true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		if err := w.job(after, id); err != nil {
			return fmt.Errorf("job %s: %w", id, err)
		}
		if err := linked(after, id); err != nil {
			return fmt.Errorf("job %s: %w", id, err)
		}
	}
	return nil
}

// linked checks that what lives knows whom it follows: who had its name last and was moved away or lost.
func linked(tx *state.Txn, id string) error {
	j := tx.Job("default", id)
	if j == nil || j.Type != api.JobTypeService && j.Type != api.JobTypeBatch {
		return nil
	}
	last := map[string]*api.Allocation{}
	for a := range tx.AllocsByJob("default", id) {
		if !lives(a) && a.Job.CreateIndex == j.CreateIndex && (last[a.Name] == nil || last[a.Name].CreateIndex < a.CreateIndex) {
			last[a.Name] = a
		}
	}
	for _, a := range live(tx, id) {
		old := last[a.Name]
		if old == nil || a.CreateIndex < old.AllocModifyIndex || a.Job.CreateIndex != old.Job.CreateIndex || canary(tx, a) || canary(tx, old) {
			continue
		}
		moved := old.DesiredDescription == reconcile.Migrating || old.ClientStatus == api.AllocClientStatusLost && old.DesiredDescription != reconcile.NotNeeded
		if moved && old.NextAllocation != a.ID {
			return fmt.Errorf("%s does not follow %s", show(a), show(old))
		}
	}
	return nil
}

// canary reports whether the allocation came as a canary.
func canary(tx *state.Txn, a *api.Allocation) bool {
	d := tx.Deployment(a.DeploymentID)
	return d != nil && slices.Contains(d.TaskGroups[a.TaskGroup].PlacedCanaries, a.ID)
}

// part is a group of a job over a step.
type part struct {
	*world
	after *state.Txn
	job   *api.Job // nil when it is gone or stopped
	id    string
	name  string
	count int
	// stay lived before and nothing happened to them; gone lived before and must not live now.
	stay, gone []*api.Allocation
	now, fresh []*api.Allocation
	// short counts what could not be placed.
	short int
	// canaried says that promoted canaries, of which the lowest names stay, took places under other names.
	canaried bool
}

func (w *world) job(after *state.Txn, id string) error {
	j := after.Job("default", id)
	if j != nil && j.Stop {
		j = nil
	}
	names := map[string]bool{}
	for _, a := range slices.Concat(live(w.before, id), live(after, id)) {
		names[a.TaskGroup] = true
	}
	if j != nil {
		for _, g := range j.TaskGroups {
			names[g.Name] = true
		}
		if j.Periodic != nil || j.ParameterizedJob != nil {
			clear(names)
		}
	}
	short := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		p := &part{world: w, after: after, job: j, id: id, name: name}
		if err := p.sort(); err != nil {
			return fmt.Errorf("group %s: %w", name, err)
		}
		if err := p.check(); err != nil {
			return fmt.Errorf("group %s: %w", name, err)
		}
		if p.short > 0 {
			short[name] = true
		}
	}
	if err := blocked(after, id, j, short); err != nil {
		return err
	}
	return w.status(after, id)
}

// sort finds what happened to those that lived before, whatever the job asks for.
func (p *part) sort() error {
	if p.job != nil && p.job.Group(p.name) != nil {
		p.count = p.job.Group(p.name).Count
	}
	for _, a := range live(p.before, p.id) {
		if a.TaskGroup != p.name {
			continue
		}
		row := p.after.Alloc(a.ID)
		evicted := row != nil && row.DesiredStatus == api.AllocDesiredStatusEvict
		if evicted {
			if err := p.evicted(row); err != nil {
				return err
			}
		}
		n := p.after.Node(a.NodeID)
		if evicted || p.count == 0 || p.outdated(a) || p.ended[a.ID] || p.drained[a.NodeID] || n == nil || n.Status != api.NodeStatusReady {
			if lives(row) {
				return fmt.Errorf("%s lives on", show(a))
			}
			p.gone = append(p.gone, a)
			continue
		}
		p.stay = append(p.stay, a)
	}
	for _, a := range live(p.after, p.id) {
		if a.TaskGroup != p.name {
			continue
		}
		p.now = append(p.now, a)
		if lives(p.before.Alloc(a.ID)) {
			continue
		}
		p.fresh = append(p.fresh, a)
		if n := p.after.Node(a.NodeID); !takesNew(n) || !suits(n, a.Job, p.name) {
			return fmt.Errorf("%s came to a node that is not for it", show(a))
		}
	}
	if len(p.now) > 0 && p.count == 0 {
		return fmt.Errorf("%s is not wanted", show(p.now[0]))
	}
	return nil
}

// outdated reports whether the allocation is a canary of another version that was never promoted.
func (p *part) outdated(a *api.Allocation) bool {
	d, s := p.after.Deployment(a.DeploymentID), a.DeploymentStatus
	if d == nil || s == nil || !s.Canary || d.TaskGroups[p.name].Promoted {
		return false
	}
	return d.JobVersion != p.job.Version || d.Status == api.DeploymentStatusFailed
}

// evicted checks that the allocation had to give way.
func (p *part) evicted(row *api.Allocation) error {
	by := p.after.Alloc(row.PreemptedByAllocation)
	priority := row.Job.Priority // which may have risen in the step
	if was := p.before.Alloc(row.ID); was != nil {
		priority = min(priority, was.Job.Priority)
	}
	if by == nil || by.NodeID != row.NodeID || by.JobID == row.JobID || by.Job.Priority < priority+10 {
		return fmt.Errorf("%s was evicted for %v", show(row), by)
	}
	if !slices.ContainsFunc(p.preempts, func(may func(string) bool) bool { return may(by.Job.Type) }) {
		return fmt.Errorf("%s was evicted by a %s job", show(row), by.Job.Type)
	}
	return nil
}

func show(a *api.Allocation) string {
	return fmt.Sprintf("%s v%d %s on %s (%s, %s)", a.Name, a.Job.Version, a.ID[:8], a.NodeID, a.DesiredStatus, a.ClientStatus)
}

func (p *part) check() error {
	switch {
	case p.job == nil || p.count == 0:
		return nil
	case p.job.Type == api.JobTypeSystem || p.job.Type == api.JobTypeSysbatch:
		return p.everywhere()
	case p.job.Type == api.JobTypeService && p.job.Group(p.name).Update.MaxParallel > 0:
		return p.rolledOut()
	}
	return p.counted()
}

// changed reports whether an allocation of before cannot become one of this version where it is.
func (p *part) changed(a *api.Allocation) bool {
	return a.Job.Group(p.name) == nil || workOf(a.Job, p.name) != workOf(p.job, p.name) || !suits(p.after.Node(a.NodeID), p.job, p.name)
}

// blocked checks that exactly those wait who must.
func blocked(tx *state.Txn, id string, j *api.Job, short map[string]bool) error {
	var waiting []*api.Evaluation
	said := map[string]bool{}
	for e := range tx.EvalsByJob("default", id) {
		if e.Status == api.EvalStatusBlocked {
			waiting = append(waiting, e)
			for name := range e.FailedTGAllocs {
				said[name] = true
			}
		}
	}
	everywhere := j != nil && (j.Type == api.JobTypeSystem || j.Type == api.JobTypeSysbatch)
	if everywhere && len(short) == 0 { // who waits for a node that is none for it any more is looked at when it is
		waiting = slices.DeleteFunc(waiting, func(e *api.Evaluation) bool {
			for n := range tx.Nodes() {
				needed := func(g *api.TaskGroup) bool { return suits(n, j, g.Name) }
				if (!takesNew(n) || !slices.ContainsFunc(j.TaskGroups, needed)) && (e.NodeID == "" || e.NodeID == n.ID) {
					return true
				}
			}
			return false
		})
	}
	switch {
	case len(short) == 0 && len(waiting) > 0:
		return fmt.Errorf("evaluation %s waits for nothing", waiting[0].ID)
	case len(short) > 0 && len(waiting) == 0:
		return fmt.Errorf("nobody waits for capacity for %v", slices.Sorted(maps.Keys(short)))
	case len(waiting) > 1 && !everywhere:
		return fmt.Errorf("%d evaluations wait", len(waiting))
	}
	for name := range short {
		if !said[name] {
			return fmt.Errorf("no refusal of group %s is told", name)
		}
	}
	return nil
}

// status checks that a job says whether it is over.
func (w *world) status(tx *state.Txn, id string) error {
	j := tx.Job("default", id)
	if j == nil {
		return nil
	}
	answer, err := w.jobs.Get(w.ctx(), &api.JobRequest{JobID: id})
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	got, want := answer.Job.Status, api.JobStatusDead
	waits, rolls := false, false
	for e := range tx.EvalsByJob("default", id) {
		waits = waits || e.Status == api.EvalStatusBlocked || e.Status == api.EvalStatusPending
	}
	for d := range tx.DeploymentsByJob("default", id) {
		rolls = rolls || d.Active()
	}
	switch {
	case len(live(tx, id)) > 0, !j.Stop && (j.Periodic != nil || j.ParameterizedJob != nil), !j.Stop && j.Type == api.JobTypeSystem, rolls:
		want = api.JobStatusRunning
	case j.Stop:
	case waits:
		want = api.JobStatusPending
	}
	if got != want {
		return fmt.Errorf("it is %s, want %s", got, want)
	}
	return nil
}
