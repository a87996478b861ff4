package deployments

import (
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/deployments/tally"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// active returns the deployment that a user means; action is what cannot be done with one that has ended.
func active(tx *state.Txn, id, action string) (*api.Deployment, error) {
	d := tx.Deployment(id)
	if d == nil {
		return nil, missing(id)
	}
	if !d.Active() {
		return nil, fault.New(fault.Invalid, "can't %s terminal deployment", action)
	}
	return d, nil
}

// put stores a deployment that was copied.
func put(tx *state.Txn, d *api.Deployment) {
	d.ModifyTime = tx.Now().UnixNano()
	tx.PutDeployment(d)
}

// evaluate stores an evaluation of the deployment's job and returns its ID, or none when the job is deleted.
func evaluate(tx *state.Txn, d *api.Deployment, id string) string {
	j := tx.Job(d.Namespace, d.JobID)
	if j == nil {
		return ""
	}
	priority := d.EvalPriority
	if priority == 0 {
		priority = j.Priority
	}
	now := tx.Now().UnixNano()
	tx.PutEval(&api.Evaluation{
		ID: id, Namespace: d.Namespace, JobID: d.JobID, DeploymentID: d.ID, Type: j.Type, Priority: priority,
		TriggeredBy: api.TriggerDeploymentWatcher, JobModifyIndex: j.JobModifyIndex, Status: api.EvalStatusPending,
		CreateTime: now, ModifyTime: now,
	})
	return id
}

// Apply ends the deployment.
func (c *SetStatus) Apply(tx *state.Txn) (any, error) {
	if c.Status == api.DeploymentStatusSuccessful {
		return c.unblock(tx)
	}
	d, err := active(tx, c.DeploymentID, "fail")
	if err != nil {
		return nil, err
	}
	revert := false
	for _, g := range d.TaskGroups {
		revert = revert || g.AutoRevert
	}
	return fail(tx, d, descriptionByUser, revert, c.EvalID), nil
}

func (c *SetStatus) unblock(tx *state.Txn) (any, error) {
	d, err := active(tx, c.DeploymentID, "unblock")
	if err != nil {
		return nil, err
	}
	if d.Status != api.DeploymentStatusBlocked {
		return nil, fault.New(fault.Invalid, "can't unblock deployment %q: it is %s, and only deployments of several regions are ever blocked", d.ID, d.Status)
	}
	next := tally.Copy(d)
	next.Status, next.StatusDescription = api.DeploymentStatusSuccessful, descriptionDone
	put(tx, next)
	return &Outcome{EvalID: evaluate(tx, next, c.EvalID)}, nil
}

// Apply promotes the canaries.
func (c *Promote) Apply(tx *state.Txn) (any, error) {
	d, err := active(tx, c.DeploymentID, "promote")
	if err != nil {
		return nil, err
	}
	groups, err := c.chosen(d)
	if err != nil {
		return nil, err
	}
	for _, name := range groups {
		g := d.TaskGroups[name]
		if n := healthyCanaries(tx, g); n < g.DesiredCanaries {
			return nil, fault.New(fault.Invalid, "can't promote group %q: %d of its %d canaries are healthy", name, n, g.DesiredCanaries)
		}
	}
	return promote(tx, d, groups, c.EvalID), nil
}

// chosen are the groups that a user wants promoted.
func (c *Promote) chosen(d *api.Deployment) ([]string, error) {
	if c.All == (len(c.Groups) > 0) {
		return nil, fault.New(fault.Invalid, "promote either all groups or those named")
	}
	groups := slices.Compact(slices.Sorted(slices.Values(c.Groups)))
	if c.All {
		groups = unpromoted(d)
	}
	for _, name := range groups {
		switch g := d.TaskGroups[name]; {
		case g == nil:
			return nil, fault.New(fault.Invalid, "can't promote group %q: deployment %q has no such group", name, d.ID)
		case g.DesiredCanaries == 0:
			return nil, fault.New(fault.Invalid, "can't promote group %q: it has no canaries", name)
		case g.Promoted:
			return nil, fault.New(fault.Invalid, "can't promote group %q: it is promoted already", name)
		}
	}
	if len(groups) == 0 {
		return nil, fault.New(fault.Invalid, "no canaries to promote")
	}
	return groups, nil
}

// promote makes the canaries of groups ordinary allocations and restarts the progress deadline of the groups.
func promote(tx *state.Txn, d *api.Deployment, groups []string, evalID string) *Outcome {
	next := tally.Copy(d)
	for _, name := range groups {
		g := next.TaskGroups[name]
		g.Promoted = true
		extend(tx, g)
		for _, id := range g.PlacedCanaries {
			a := tx.Alloc(id)
			if a == nil || a.DeploymentStatus == nil || !a.DeploymentStatus.Canary {
				continue
			}
			status := *a.DeploymentStatus
			status.Canary, status.ModifyIndex = false, tx.Index()
			plain := *a
			plain.DeploymentStatus, plain.AllocModifyIndex = &status, tx.Index()
			tx.PutAlloc(&plain)
		}
	}
	if next.Status == api.DeploymentStatusRunning {
		next.StatusDescription = running(next)
	}
	put(tx, next)
	return &Outcome{EvalID: evaluate(tx, next, evalID)}
}

// extend gives a group all of its time to progress.
func extend(tx *state.Txn, g *api.DeploymentState) {
	if g.ProgressDeadline > 0 {
		g.RequireProgressBy = tx.Now().Add(g.ProgressDeadline)
	}
}

// Apply pauses the deployment or lets it go on.
func (c *Pause) Apply(tx *state.Txn) (any, error) {
	action := "resume"
	if c.Pause {
		action = "pause"
	}
	d, err := active(tx, c.DeploymentID, action)
	if err != nil {
		return nil, err
	}
	next := tally.Copy(d)
	switch {
	case c.Pause:
		next.Status, next.StatusDescription = api.DeploymentStatusPaused, descriptionPaused
		put(tx, next)
		return &Outcome{}, nil
	case d.Status != api.DeploymentStatusPaused:
		return &Outcome{}, nil
	}
	next.Status, next.StatusDescription = api.DeploymentStatusRunning, running(next)
	for _, g := range next.TaskGroups {
		if !g.RequireProgressBy.IsZero() {
			extend(tx, g)
		}
	}
	put(tx, next)
	return &Outcome{EvalID: evaluate(tx, next, c.EvalID)}, nil
}

// Apply sets the health, and does at once what follows from it: whoever says that an allocation is unhealthy
// ends the deployment.
func (c *SetHealth) Apply(tx *state.Txn) (any, error) {
	d, err := active(tx, c.DeploymentID, "set health of allocations of a")
	if err != nil {
		return nil, err
	}
	if len(c.Healthy)+len(c.Unhealthy) == 0 {
		return nil, fault.New(fault.Invalid, "must specify at least one healthy or unhealthy allocation ID")
	}
	healthy := make(map[string]bool, len(c.Healthy))
	for _, id := range c.Healthy {
		healthy[id] = true
	}
	unhealthy := make(map[string]bool, len(c.Unhealthy))
	for _, id := range c.Unhealthy {
		unhealthy[id] = true
	}
	for _, id := range slices.Concat(c.Healthy, c.Unhealthy) {
		if a := tx.Alloc(id); a == nil || a.DeploymentID != d.ID {
			return nil, fault.New(fault.Invalid, "allocation %q is not of deployment %q", id, d.ID)
		}
		if healthy[id] && unhealthy[id] {
			return nil, fault.New(fault.Invalid, "allocation %q can't be healthy and unhealthy", id)
		}
	}
	sheet := tally.New(tx)
	for _, id := range c.Healthy {
		setHealth(tx, sheet, tx.Alloc(id), true)
	}
	for _, id := range c.Unhealthy {
		setHealth(tx, sheet, tx.Alloc(id), false)
	}
	sheet.Write()
	d = tx.Deployment(d.ID)
	if len(c.Unhealthy) == 0 {
		return carryOn(tx, d, true, c.EvalID), nil
	}
	revert := slices.ContainsFunc(c.Unhealthy, func(id string) bool {
		g := d.TaskGroups[tx.Alloc(id).TaskGroup]
		return g != nil && g.AutoRevert
	})
	return fail(tx, d, descriptionUnhealthy, revert, c.EvalID), nil
}

func setHealth(tx *state.Txn, sheet *tally.Sheet, old *api.Allocation, healthy bool) {
	status := api.AllocDeploymentStatus{}
	if old.DeploymentStatus != nil {
		status = *old.DeploymentStatus
	}
	status.Healthy, status.Timestamp, status.ModifyIndex = &healthy, tx.Now(), tx.Index()
	next := *old
	next.DeploymentStatus, next.ModifyTime = &status, tx.Now().UnixNano()
	sheet.AllocChanged(old, &next)
	tx.PutAlloc(&next)
}

// Apply advances the deployments. It skips those that have ended or are deleted.
func (c *Step) Apply(tx *state.Txn) (any, error) {
	for _, m := range c.Moves {
		d := tx.Deployment(m.DeploymentID)
		if d == nil {
			continue
		}
		carryOn(tx, d, m.Evaluate, fsm.DerivedID(c.Seed, d.ID))
	}
	return &Outcome{}, nil
}

// carryOn does what is to be done with a deployment now.
func carryOn(tx *state.Txn, d *api.Deployment, evaluation bool, evalID string) *Outcome {
	v := judge(tx, d, tx.Now())
	switch {
	case !d.Active():
		settle(tx, d)
		return &Outcome{}
	case v.fail != "":
		return fail(tx, d, v.fail, v.revert, evalID)
	}
	for _, a := range v.reschedule {
		next := *a
		next.DesiredTransition.Reschedule = true
		next.ModifyTime = tx.Now().UnixNano()
		tx.PutAlloc(&next)
	}
	if len(v.promote) > 0 {
		return promote(tx, d, v.promote, evalID)
	}
	if len(v.reschedule) > 0 || evaluation && d.Status != api.DeploymentStatusPaused {
		return &Outcome{EvalID: evaluate(tx, d, evalID)}
	}
	return &Outcome{}
}

func missing(id string) error { return fault.New(fault.NotFound, "deployment %q not found", id) }
