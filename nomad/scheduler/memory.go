package scheduler

import (
	"slices"

	"github.com/open-nomad/open-nomad/api"
)

// surveysMax bounds the surveys that are kept, each of which holds about 60 bytes per node.
const surveysMax = 64

// Memory keeps surveys of the nodes from one evaluation to the next, for groups that ask the same. It
// belongs to one line of fleets and to one worker: it is not to be used by two evaluations at once. A nil
// memory remembers nothing.
type Memory struct {
	kept []*survey // oldest first
	// shape is that of the group that asked last; it is written over by the next.
	shape []byte
}

// take hands out a survey that serves the group, or nil.
func (m *Memory) take(r *run, g *api.TaskGroup) *survey {
	if m == nil {
		return nil
	}
	m.shape = appendShape(m.shape[:0], r, g)
	for i := len(m.kept) - 1; i >= 0; i-- {
		if s := m.kept[i]; s.shape == string(m.shape) {
			m.kept = slices.Delete(m.kept, i, i+1)
			return s
		}
	}
	return nil
}

// named is the shape of the group that asked last.
func (m *Memory) named() string {
	if m == nil {
		return ""
	}
	return string(m.shape)
}

// give keeps a survey for the next evaluation.
func (m *Memory) give(s *survey) {
	if m == nil {
		return
	}
	if len(m.kept) == surveysMax {
		m.kept = slices.Delete(m.kept, 0, 1)
	}
	m.kept = append(m.kept, s)
}

// appendShape writes all that a survey for the group depends on. Groups of one shape can share surveys.
func appendShape(text []byte, r *run, g *api.TaskGroup) []byte {
	j := r.job
	ask := &api.TaskGroup{
		Constraints: g.Constraints, Affinities: g.Affinities, Spreads: g.Spreads, Networks: g.Networks, EphemeralDisk: g.EphemeralDisk,
	}
	if len(j.Spreads)+len(g.Spreads) > 0 {
		ask.Count = g.Count
	}
	for _, t := range g.Tasks {
		ask.Tasks = append(ask.Tasks, &api.Task{
			Driver: t.Driver, Constraints: t.Constraints, Affinities: t.Affinities, Resources: t.Resources, Lifecycle: t.Lifecycle,
		})
	}
	whole := api.Job{
		Type: r.kind(), NodePool: j.NodePool, Datacenters: j.Datacenters, Constraints: j.Constraints, Affinities: j.Affinities,
		Spreads: j.Spreads, TaskGroups: []*api.TaskGroup{ask}, AllAtOnce: r.spread, Stop: r.oversub,
	}
	text, err := whole.MarshalMsg(text)
	if err != nil {
		return nil // a job that was decoded can be encoded
	}
	var volumes []string
	for _, v := range g.Volumes {
		text := v.Type
		if v.Type == api.VolumeTypeHost {
			text += "\x00" + v.Source + "\x00" + v.AccessMode
		}
		if v.ReadOnly {
			text += "\x00ro"
		}
		volumes = append(volumes, text)
	}
	slices.Sort(volumes)
	for _, v := range volumes {
		text = append(append(text, v...), 0)
	}
	return text
}
