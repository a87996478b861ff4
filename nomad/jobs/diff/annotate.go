package diff

import (
	"slices"

	"github.com/open-nomad/open-nomad/api"
)

// What annotations say.
const (
	forcesCreate      = "forces create"
	forcesDestroy     = "forces destroy"
	forcesInPlace     = "forces in-place update"
	forcesDestructive = "forces create/destroy update"
)

// gentle are fields and blocks of a task that change without a new allocation.
var gentle = []string{
	"KillTimeout", "KillSignal", "ShutdownDelay", "Leader", "Constraint", "Affinity", "Service", "LogConfig", "RestartPolicy",
	"Lifecycle", "Scaling", "ScalingPolicy", "Schedule", "Action",
}

// Annotate adds to a difference what a plan does because of it: how many allocations of each group, and
// which changes of counts and tasks are the reason.
func Annotate(d *api.JobDiff, plan *api.PlanAnnotations) {
	for _, g := range d.TaskGroups {
		if plan != nil {
			g.Updates = updates(plan.DesiredTGUpdates[g.Name])
		}
		for _, f := range g.Fields {
			if f.Name == "Count" {
				f.Annotations = count(f)
			}
		}
		for _, t := range g.Tasks {
			t.Annotations = reasons(t)
		}
	}
}

func updates(u *api.DesiredUpdates) map[string]uint64 {
	if u == nil {
		return nil
	}
	out := map[string]uint64{}
	for what, n := range map[string]uint64{
		"ignore": u.Ignore, "create": u.Place, "migrate": u.Migrate, "destroy": u.Stop, "in-place update": u.InPlaceUpdate,
		"create/destroy update": u.DestructiveUpdate, "canary": u.Canary, "preemptions": u.Preemptions,
	} {
		if n > 0 {
			out[what] = n
		}
	}
	return out
}

func count(f *api.FieldDiff) []string {
	switch {
	case f.Type == None:
		return nil
	case f.Type == Added:
		return []string{forcesCreate}
	case f.Type == Deleted:
		return []string{forcesDestroy}
	case len(f.New) > len(f.Old) || len(f.New) == len(f.Old) && f.New > f.Old:
		return []string{forcesCreate}
	default:
		return []string{forcesDestroy}
	}
}

// reasons say what the change of a task asks for.
func reasons(t *api.TaskDiff) []string {
	switch {
	case t.Type == None:
		return nil
	case t.Type == Added:
		return []string{forcesCreate}
	case t.Type == Deleted:
		return []string{forcesDestroy}
	}
	for _, f := range t.Fields {
		if f.Type != None && !slices.Contains(gentle, f.Name) {
			return []string{forcesDestructive}
		}
	}
	for _, o := range t.Objects {
		if o.Type != None && !slices.Contains(gentle, o.Name) {
			return []string{forcesDestructive}
		}
	}
	return []string{forcesInPlace}
}
