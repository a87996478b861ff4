package reconcile_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
)

// world carries results out as the servers do, for one group that changes all the time.
type world struct {
	*rapid.T
	*scene
	down   map[string]bool
	ids    int
	index  uint64
	losses bool
}

func newWorld(t *rapid.T, losses bool) *world {
	u := &api.UpdateStrategy{MaxParallel: rapid.IntRange(1, 4).Draw(t, "max parallel"), Canary: rapid.IntRange(0, 3).Draw(t, "canary")}
	w := &world{T: t, scene: newScene(rapid.IntRange(0, 6).Draw(t, "count"), u), down: map[string]bool{}, losses: losses}
	w.in.Job.TaskGroups[0].ReschedulePolicy = &api.ReschedulePolicy{Unlimited: true, DelayFunction: "constant"}
	w.in.Node = func(id string) *api.Node {
		if w.down[id] {
			return &api.Node{ID: id, Status: api.NodeStatusDown}
		}
		return &api.Node{ID: id, Status: api.NodeStatusReady}
	}
	return w
}

func (w *world) group() *api.TaskGroup { return w.in.Job.TaskGroups[0] }

func (w *world) live() []*api.Allocation {
	return slices.DeleteFunc(slices.Clone(w.in.Allocs), func(a *api.Allocation) bool { return a.Terminal() })
}

// newVersion registers the job with another user, and sometimes another count.
func (w *world) newVersion(count int) {
	w.index++
	w.in = changed(w.in, func(g *api.TaskGroup) { g.Count, g.Tasks[0].User = count, fmt.Sprint("v", w.index) })
}

func (w *world) isCanary(a *api.Allocation) bool {
	d := w.in.Current
	return d != nil && a.DeploymentID == d.ID && a.DeploymentStatus != nil && a.DeploymentStatus.Canary && !d.TaskGroups["g"].Promoted
}

// evaluate reconciles, checks what was decided, and carries it out; some placements find no node.
func (w *world) evaluate(full bool) reconcile.Result {
	w.index++
	w.in.Now = w.in.Now.Add(time.Second)
	var cancel []*api.DeploymentStatusUpdate
	w.in.Current, cancel = reconcile.Current(w.in.Job, w.in.Deployments)
	for _, u := range cancel {
		for _, d := range w.in.Deployments {
			if d.ID == u.DeploymentID {
				d.Status = u.Status
			}
		}
	}
	r := reconcile.Group(w.in)
	w.decided(r)
	if r.State != nil {
		d := reconcile.NewDeployment(fmt.Sprint("d", w.index), w.in.Job, 50)
		d.CreateIndex, d.TaskGroups["g"] = w.index, r.State
		w.in.Deployments, w.in.Current = append(w.in.Deployments, d), d
	}
	for _, s := range r.Stop {
		w.end(s)
	}
	for _, a := range r.Update {
		a.Job = w.in.Job
	}
	for _, p := range r.Place {
		if full || rapid.Bool().Draw(w.T, "found a node") {
			w.put(p)
		}
	}
	if d := w.in.Current; r.Settled && d != nil && d.Status == running {
		d.Status = api.DeploymentStatusSuccessful
	}
	w.stored()
	return r
}

func (w *world) end(s reconcile.Stop) {
	s.Alloc.DesiredStatus = api.AllocDesiredStatusStop
	if s.ClientStatus != "" {
		s.Alloc.ClientStatus = s.ClientStatus
	}
}

func (w *world) put(p reconcile.Place) {
	w.ids++
	a := &api.Allocation{
		ID: fmt.Sprint("n", w.ids), Name: p.Name, NodeID: fmt.Sprint("node", w.ids), Job: w.in.Job, TaskGroup: "g", CreateIndex: w.index,
		DesiredStatus: api.AllocDesiredStatusRun, ClientStatus: api.AllocClientStatusPending,
	}
	if p.Job != nil {
		a.Job = p.Job
	} else if d := w.in.Current; d != nil && d.Active() {
		a.DeploymentID = d.ID
		if p.Canary {
			a.DeploymentStatus = &api.AllocDeploymentStatus{Canary: true}
		}
	}
	if p.Previous != nil {
		p.Previous.NextAllocation = a.ID
	}
	if p.Stop != nil {
		w.end(*p.Stop)
	}
	w.in.Allocs = append(w.in.Allocs, a)
}

// decided checks a result.
func (w *world) decided(r reconcile.Result) {
	stopped := map[*api.Allocation]bool{}
	for _, s := range r.Stop {
		stopped[s.Alloc] = true
		if !s.Alloc.ClientTerminal() && s.Description == reconcile.Updating {
			w.Fatalf("%s is stopped for an update without successor", s.Alloc.Name)
		}
	}
	for _, p := range r.Place {
		if p.Stop != nil && (p.Previous != p.Stop.Alloc || p.Name != p.Previous.Name || stopped[p.Previous]) {
			w.Fatalf("%s takes over %s and stops %s", p.Name, p.Previous.Name, p.Stop.Alloc.Name)
		}
	}
}

// stored checks what there is afterwards.
func (w *world) stored() {
	names, canaries := map[string]bool{}, map[string]bool{}
	for _, a := range w.live() {
		set := names
		if w.isCanary(a) {
			set = canaries
		}
		if set[a.Name] {
			w.Fatalf("two have the name %s", a.Name)
		}
		set[a.Name] = true
	}
	if len(names) > w.group().Count {
		w.Fatalf("%d of %d", len(names), w.group().Count)
	}
	if d := w.in.Current; len(canaries) > 0 && len(canaries) > d.TaskGroups["g"].DesiredCanaries {
		w.Fatalf("%d canaries of %d", len(canaries), d.TaskGroups["g"].DesiredCanaries)
	}
}

// happen changes something outside.
func (w *world) happen() {
	live, d := w.live(), w.in.Current
	what := rapid.SampledFrom([]string{"healthy", "healthy", "healthy", "promote", "version", "unhealthy", "lost", "failed", "migrate", "fail", "pause", "resume"}).Draw(w.T, "what")
	active := d != nil && d.Active()
	var a *api.Allocation
	if len(live) > 0 {
		a = live[rapid.IntRange(0, len(live)-1).Draw(w.T, "who")]
	}
	switch {
	case what == "version":
		w.newVersion(rapid.IntRange(0, 6).Draw(w.T, "count"))
	case what == "promote" && active:
		w.promote()
	case what == "fail" && active:
		d.Status = failing
	case what == "pause" && active:
		d.Status = paused
	case what == "resume" && active:
		d.Status = running
	case a == nil:
	case what == "healthy":
		w.decide(a, true)
	case !w.losses:
	case what == "unhealthy":
		w.decide(a, false)
	case what == "lost":
		w.down[a.NodeID] = true
	case what == "failed":
		a.ClientStatus, a.ModifyTime = api.AllocClientStatusFailed, w.in.Now.UnixNano()
		a.DesiredTransition.Reschedule = rapid.Bool().Draw(w.T, "marked")
	case what == "migrate":
		a.DesiredTransition.Migrate = true
	}
}

// promote promotes the canaries, if all that are wanted are healthy.
func (w *world) promote() {
	healthy := 0
	for _, a := range w.live() {
		if w.isCanary(a) && a.DeploymentStatus.Healthy != nil && *a.DeploymentStatus.Healthy {
			healthy++
		}
	}
	if g := w.in.Current.TaskGroups["g"]; healthy >= g.DesiredCanaries {
		g.Promoted = true
	}
}

func (w *world) decide(a *api.Allocation, healthy bool) {
	a.ClientStatus = api.AllocClientStatusRunning
	d := w.in.Current
	if d == nil || a.DeploymentID != d.ID || a.DeploymentStatus != nil && a.DeploymentStatus.Healthy != nil {
		return
	}
	s := api.AllocDeploymentStatus{Healthy: &healthy}
	s.Canary = a.DeploymentStatus != nil && a.DeploymentStatus.Canary
	a.DeploymentStatus = &s
	if healthy {
		d.TaskGroups["g"].HealthyAllocs++
	}
}

func TestWhateverHappensTheCountHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, true)
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			w.happen()
			w.evaluate(false)
		}
		if d := w.in.Current; d != nil && (d.Status == failing || d.Status == paused) {
			w.newVersion(w.group().Count)
		}
		w.converge()
	})
}

// converge lets everything go well; in the end all is of the new version and nothing is left to do.
func (w *world) converge() {
	var r reconcile.Result
	for range 60 {
		for _, a := range w.in.Allocs {
			a.DesiredTransition.Reschedule = true
		}
		if r = w.evaluate(true); r.Settled && len(r.Stop) == 0 {
			break
		}
		for _, a := range w.live() {
			if s := a.DeploymentStatus; s != nil && s.Healthy != nil && !*s.Healthy {
				a.ClientStatus, a.ModifyTime = api.AllocClientStatusFailed, w.in.Now.UnixNano()
				continue
			}
			w.decide(a, true)
		}
		if d := w.in.Current; d != nil && d.Active() && d.TaskGroups["g"] != nil {
			w.promote()
		}
	}
	live := w.live()
	for _, a := range live {
		if a.Job.Version != w.in.Job.Version {
			w.Fatalf("%s stays of version %d", a.Name, a.Job.Version)
		}
	}
	if len(live) != w.group().Count || !r.Settled {
		w.Fatalf("in the end %d of %d, settled %v, deployment %+v", len(live), w.group().Count, r.Settled, w.in.Current)
	}
}

func TestRollOutsKeepWhatIsUsed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, false)
		w.converge()
		w.newVersion(w.group().Count)
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			if w.evaluate(false); w.away() > w.group().Update.MaxParallel {
				t.Fatalf("%d are away of %d", w.away(), w.group().Count)
			}
			live := w.live()
			if len(live) > 0 && rapid.Bool().Draw(t, "someone gets healthy") {
				w.decide(live[rapid.IntRange(0, len(live)-1).Draw(t, "who")], true)
			}
			if d := w.in.Current; d != nil && rapid.Bool().Draw(t, "promote") {
				w.promote()
			}
		}
		w.converge()
	})
}

// away counts what of the count does not serve: missing, or of the new version and not healthy.
func (w *world) away() int {
	serves := map[string]bool{}
	for _, a := range w.live() {
		if a.Job.Version != w.in.Job.Version || a.DeploymentStatus != nil && a.DeploymentStatus.Healthy != nil {
			serves[a.Name] = true
		}
	}
	return w.group().Count - len(serves)
}
