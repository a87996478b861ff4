package share

import "github.com/open-nomad/open-nomad/api"

// stringsMax bounds the remembered strings; forgetting them costs memory only.
const stringsMax = 500_000

// Pool remembers values that later ones may share. It is not for several goroutines at once.
type Pool struct {
	strings   map[string]string
	resources []*api.AllocatedResources
	counts    []*api.AllocationMetric
	scores    Scores
}

// Text returns the first equal string.
func (p *Pool) Text(s string) string {
	if s == "" {
		return ""
	}
	if known, ok := p.strings[s]; ok {
		return known
	}
	if p.strings == nil || len(p.strings) >= stringsMax {
		p.strings = map[string]string{}
	}
	p.strings[s] = s
	return s
}

// Alloc replaces parts of a private allocation by equal ones that the pool has seen.
func (p *Pool) Alloc(a *api.Allocation) {
	for _, s := range []*string{
		&a.Namespace, &a.EvalID, &a.JobID, &a.TaskGroup, &a.NodeID, &a.NodeName, &a.DeploymentID,
		&a.DesiredStatus, &a.DesiredDescription, &a.ClientStatus, &a.ClientDescription,
	} {
		*s = p.Text(*s)
	}
	if a.AllocatedResources != nil {
		a.AllocatedResources = p.resourcesOf(a.AllocatedResources)
	}
	if a.Metrics != nil {
		a.Metrics = p.metrics(a.Metrics)
	}
	for _, t := range a.TaskStates {
		if t != nil {
			p.task(t)
		}
	}
}

func (p *Pool) task(t *api.TaskState) {
	t.State = p.Text(t.State)
	for _, e := range t.Events {
		if e != nil {
			e.Type, e.Message, e.DisplayMessage = p.Text(e.Type), p.Text(e.Message), p.Text(e.DisplayMessage)
		}
	}
}

// Resources returns equal ones that the pool has seen, or remembers these. They have no ports.
func (p *Pool) Resources(r *api.AllocatedResources) *api.AllocatedResources {
	return known(&p.resources, r, SameResources)
}

// Counts returns a metric with the same counts that the pool has seen, or remembers this one. Its time and its
// scores are its own.
func (p *Pool) Counts(m *api.AllocationMetric) *api.AllocationMetric {
	return known(&p.counts, m, SameCounts)
}

// known returns one of the latest of a list that is the same, or else adds the value.
func known[T any](list *[]T, value T, same func(a, b T) bool) T {
	if at := Latest(*list, func(o T) bool { return same(o, value) }); at > 0 {
		return (*list)[at-1]
	}
	*list = append(last(*list), value)
	return value
}

func (p *Pool) resourcesOf(r *api.AllocatedResources) *api.AllocatedResources {
	if len(r.Shared.Ports) == 0 {
		return p.Resources(r)
	}
	bare := *r
	bare.Shared.Ports = nil
	r.Tasks = p.Resources(&bare).Tasks
	for i := range r.Shared.Ports {
		port := &r.Shared.Ports[i]
		port.Label, port.HostIP = p.Text(port.Label), p.Text(port.HostIP)
	}
	return r
}

func (p *Pool) metrics(m *api.AllocationMetric) *api.AllocationMetric {
	own := *p.Counts(m)
	own.ScoreMetaData, own.AllocationTime = m.ScoreMetaData, m.AllocationTime
	*m = own
	for _, s := range m.ScoreMetaData {
		if s == nil {
			continue
		}
		s.NodeID = p.Text(s.NodeID)
		if at := p.scores.Place(s.Scores); at > 0 {
			s.Scores = p.scores.list[at-1]
		}
		p.scores.list, p.scores.sums = last(p.scores.list), last(p.scores.sums)
	}
	return m
}

// last drops what would no longer be compared.
func last[T any](list []T) []T {
	if len(list) < 64*sameMax {
		return list
	}
	return append(list[:0], list[len(list)-sameMax:]...)
}
