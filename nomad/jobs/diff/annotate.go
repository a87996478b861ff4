package diff

import "github.com/open-nomad/open-nomad/api"

// Texts of annotations.
const (
	forcesCreate      = "forces create"
	forcesDestroy     = "forces destroy"
	forcesInPlace     = "forces in-place update"
	forcesDestructive = "forces create/destroy update"
)

// Annotate adds to a difference what a plan does because of it: how many allocations of each group, and
// which changes of counts and tasks are the reason. Forces is the scheduler's rule: whether the change of
// a task asks for new allocations.
func Annotate(d *api.JobDiff, plan *api.PlanAnnotations, forces func(group, task string) bool) {
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
			t.Annotations = reasons(g.Type, t, func() bool { return forces(g.Name, t.Name) })
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

// reasons say what the change of a task asks for: one that comes or goes replaces what the rest of its group runs.
func reasons(group string, t *api.TaskDiff, forces func() bool) []string {
	switch {
	case t.Type == None:
		return nil
	case group == Added:
		return []string{forcesCreate}
	case group == Deleted:
		return []string{forcesDestroy}
	case t.Type == Added || t.Type == Deleted || forces():
		return []string{forcesDestructive}
	}
	return []string{forcesInPlace}
}
