package scheduler

import (
	"fmt"
	"slices"

	"github.com/open-nomad/open-nomad/api"
)

// rankingsMax bounds the cached rankings, each of which holds about 60 bytes per node.
const rankingsMax = 64

// RankingCache keeps rankings of the nodes between evaluations, for task groups with equal requests. It belongs
// to one history of fleets and one worker and is not safe for concurrent use. A nil cache keeps nothing.
type RankingCache struct {
	entries []*ranking // oldest first
	// shape is the shape of the last get; the next one overwrites it.
	shape []byte
}

// get removes and returns a ranking for the group, or nil.
func (m *RankingCache) get(r *run, g *api.TaskGroup) *ranking {
	if m == nil {
		return nil
	}
	m.shape = appendShape(m.shape[:0], r, g)
	for i := len(m.entries) - 1; i >= 0; i-- {
		if s := m.entries[i]; s.shape == string(m.shape) {
			m.entries = slices.Delete(m.entries, i, i+1)
			return s
		}
	}
	return nil
}

// lastShape returns the shape of the last get.
func (m *RankingCache) lastShape() string {
	if m == nil {
		return ""
	}
	return string(m.shape)
}

// put stores a ranking for the next evaluation.
func (m *RankingCache) put(s *ranking) {
	if m == nil {
		return
	}
	if len(m.entries) == rankingsMax {
		m.entries = slices.Delete(m.entries, 0, 1)
	}
	m.entries = append(m.entries, s)
}

// appendShape appends everything that a ranking for the group depends on. Groups of one shape share rankings.
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
			text += fmt.Sprintf("\x00%s\x00%s\x00%s\x00%s\x00%t\x00%t", j.Namespace, v.Source, v.AccessMode, v.AttachmentMode, v.Sticky, v.PerAlloc)
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
