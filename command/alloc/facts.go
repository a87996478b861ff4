package alloc

import (
	"strconv"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

func facts(s *session.Session, a *api.Allocation) [][2]string {
	version := "N/A"
	if a.Job != nil {
		version = strconv.FormatUint(a.Job.Version, 10)
	}
	f := [][2]string{
		{"ID", s.ID(a.ID)},
		{"Eval ID", s.ID(a.EvalID)},
		{"Name", a.Name},
		{"Node ID", s.ID(a.NodeID)},
		{"Node Name", a.NodeName},
		{"Job ID", a.JobID},
		{"Job Version", version},
		{"Client Status", a.ClientStatus},
		{"Client Description", a.ClientDescription},
		{"Desired Status", a.DesiredStatus},
		{"Desired Description", a.DesiredDescription},
		{"Created", s.When(a.CreateTime)},
		{"Modified", s.When(a.ModifyTime)},
	}
	if a.DeploymentID != "" {
		f = append(f, [2]string{"Deployment ID", s.ID(a.DeploymentID)}, [2]string{"Deployment Health", health(a.DeploymentStatus)})
	}
	if d := a.DeploymentStatus; d != nil && d.Canary {
		f = append(f, [2]string{"Canary", "true"})
	}
	if t := a.RescheduleTracker; t != nil && len(t.Events) > 0 {
		f = append(f, [2]string{"Reschedule Attempts", strconv.Itoa(len(t.Events))})
	}
	if a.FollowupEvalID != "" {
		f = append(f, [2]string{"Follow Up Eval", s.ID(a.FollowupEvalID)})
	}
	if a.PreemptedByAllocation != "" {
		f = append(f, [2]string{"Preempted By", s.ID(a.PreemptedByAllocation)})
	}
	if a.PreviousAllocation != "" {
		f = append(f, [2]string{"Replacement Of", s.ID(a.PreviousAllocation)})
	}
	if a.NextAllocation != "" {
		f = append(f, [2]string{"Replacement Alloc ID", s.ID(a.NextAllocation)})
	}
	if m := a.Metrics; m != nil && s.Verbose {
		f = append(f, [2]string{"Evaluated Nodes", strconv.Itoa(m.NodesEvaluated)},
			[2]string{"Filtered Nodes", strconv.Itoa(m.NodesFiltered)},
			[2]string{"Exhausted Nodes", strconv.Itoa(m.NodesExhausted)},
			[2]string{"Allocation Time", m.AllocationTime.String()},
			[2]string{"Failures", strconv.Itoa(m.CoalescedFailures)})
	}
	return f
}

func health(d *api.AllocDeploymentStatus) string {
	switch {
	case d == nil || d.Healthy == nil:
		return "unset"
	case *d.Healthy:
		return "healthy"
	}
	return "unhealthy"
}

func showAddresses(s *session.Session, a *api.Allocation) {
	if a.AllocatedResources == nil || len(a.AllocatedResources.Shared.Ports) == 0 {
		return
	}
	table := [][]string{{"Label", "Dynamic", "Address"}}
	static := map[string]bool{}
	if g := a.Group(); g != nil {
		for _, n := range g.Networks {
			for _, p := range n.ReservedPorts {
				static[p.Label] = true
			}
		}
	}
	for _, p := range a.AllocatedResources.Shared.Ports {
		dynamic := "yes"
		if static[p.Label] {
			dynamic = "no"
		}
		address := p.HostIP + ":" + strconv.Itoa(p.Value)
		if p.To > 0 {
			address += " -> " + strconv.Itoa(p.To)
		}
		table = append(table, []string{"*" + p.Label, dynamic, address})
	}
	s.Section("Allocation Addresses:", table...)
}

func showShort(s *session.Session, a *api.Allocation) {
	table := [][]string{{"Name", "State", "Last Event", "Time"}}
	for _, t := range taskNames(a) {
		state, last, when := "pending", "", ""
		if st := a.TaskStates[t]; st != nil {
			state = st.State
			if n := len(st.Events); n > 0 {
				last, when = st.Events[n-1].Type, view.UnixTime(st.Events[n-1].Time)
			}
		}
		table = append(table, []string{t, state, last, when})
	}
	s.Section("Tasks", table...)
}
