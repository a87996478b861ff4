package tally_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/deployments/tally"
	"github.com/open-nomad/open-nomad/nomad/state"
)

var start = time.Unix(1000, 0)

// commit changes the state at a second after start.
func commit(s *state.Store, second int, fn func(*state.Txn)) {
	tx := s.Write(s.Read().Index()+1, start.Add(time.Duration(second)*time.Second))
	fn(tx)
	tx.Commit()
}

func deployment(id string, groups ...string) *api.Deployment {
	d := &api.Deployment{ID: id, Namespace: "default", JobID: "j", Status: api.DeploymentStatusRunning, TaskGroups: map[string]*api.DeploymentState{}}
	for _, g := range groups {
		d.TaskGroups[g] = &api.DeploymentState{DesiredTotal: 3, ProgressDeadline: 10 * time.Second}
	}
	return d
}

// seen is what an allocation said of itself last under one deployment.
type seen struct {
	group   string
	healthy *bool
	canary  bool
}

// recount computes the counters of a deployment anew.
func recount(of map[string]seen, group string) (placed, healthy, unhealthy int, canaries []string) {
	for id, s := range of {
		if s.group != group {
			continue
		}
		placed++
		if s.healthy != nil && *s.healthy {
			healthy++
		}
		if s.healthy != nil && !*s.healthy {
			unhealthy++
		}
		if s.canary {
			canaries = append(canaries, id)
		}
	}
	slices.Sort(canaries)
	return placed, healthy, unhealthy, canaries
}

func TestCountersEqualARecount(t *testing.T) {
	yes, no := true, false
	groups, ids := []string{"a", "b"}, []string{"", "d1", "d2", "unknown"}
	rapid.Check(t, func(t *rapid.T) {
		s := state.New()
		commit(s, 0, func(tx *state.Txn) {
			tx.PutDeployment(deployment("d1", groups...))
			tx.PutDeployment(deployment("d2", groups...))
		})
		history := map[string]map[string]seen{"d1": {}, "d2": {}}
		var lives [10]int // ids are never used twice
		for i := range rapid.IntRange(1, 30).Draw(t, "commits") {
			commit(s, i, func(tx *state.Txn) {
				sheet := tally.New(tx)
				for range rapid.IntRange(1, 4).Draw(t, "changes") {
					n := rapid.IntRange(0, 9).Draw(t, "alloc")
					id := fmt.Sprint("alloc", n, ".", lives[n])
					before := tx.Alloc(id)
					if before != nil && rapid.IntRange(0, 9).Draw(t, "delete") == 0 {
						sheet.AllocChanged(before, nil)
						tx.DeleteAlloc(id)
						lives[n]++
						continue
					}
					after := &api.Allocation{
						ID: id, Namespace: "default", JobID: "j", TaskGroup: rapid.SampledFrom(groups).Draw(t, "group"),
						DeploymentID: rapid.SampledFrom(ids).Draw(t, "deployment"),
					}
					if before != nil { // it never returns to an older deployment
						after.TaskGroup = before.TaskGroup
						after.DeploymentID = ids[max(slices.Index(ids, before.DeploymentID), slices.Index(ids, after.DeploymentID))]
					}
					if h := rapid.SampledFrom([]*bool{nil, &yes, &no}).Draw(t, "healthy"); h != nil || rapid.Bool().Draw(t, "status") {
						after.DeploymentStatus = &api.AllocDeploymentStatus{Healthy: h, Canary: rapid.Bool().Draw(t, "canary")}
					}
					sheet.AllocChanged(before, after)
					tx.PutAlloc(after)
					note(history[after.DeploymentID], after)
				}
				sheet.Write()
			})
		}
		for id, of := range history {
			for _, name := range groups {
				g := s.Read().Deployment(id).TaskGroups[name]
				placed, healthy, unhealthy, canaries := recount(of, name)
				got := slices.Sorted(slices.Values(g.PlacedCanaries))
				if g.PlacedAllocs != placed || g.HealthyAllocs != healthy || g.UnhealthyAllocs != unhealthy || !slices.Equal(got, canaries) {
					t.Fatalf("%s %s: counters %+v, recounted placed %d, healthy %d, unhealthy %d, canaries %v", id, name, g, placed, healthy, unhealthy, canaries)
				}
			}
		}
	})
}

// note keeps what the allocation says now.
func note(of map[string]seen, a *api.Allocation) {
	if of == nil {
		return
	}
	now := seen{group: a.TaskGroup}
	if d := a.DeploymentStatus; d != nil {
		now.healthy, now.canary = d.Healthy, d.Canary || of[a.ID].canary
	} else {
		now.canary = of[a.ID].canary
	}
	of[a.ID] = now
}

func TestProgressMovesWithPlacementAndHealth(t *testing.T) {
	s := state.New()
	yes := true
	d := deployment("d", "g", "at once")
	d.TaskGroups["at once"].ProgressDeadline = 0
	commit(s, 0, func(tx *state.Txn) { tx.PutDeployment(d) })
	want := func(what string, at time.Time) {
		t.Helper()
		if got := s.Read().Deployment("d").TaskGroups["g"].RequireProgressBy; !got.Equal(at) {
			t.Errorf("%s: progress by %v, want %v", what, got, at)
		}
	}
	alloc := func(id string, healthy *bool) *api.Allocation {
		return &api.Allocation{ID: id, TaskGroup: "g", DeploymentID: "d", DeploymentStatus: &api.AllocDeploymentStatus{Healthy: healthy}}
	}
	want("nothing placed", time.Time{})
	commit(s, 5, func(tx *state.Txn) { tally.AllocChanged(tx, nil, alloc("1", nil)) })
	want("first placement", start.Add(15*time.Second))
	commit(s, 6, func(tx *state.Txn) { tally.AllocChanged(tx, nil, alloc("2", nil)) })
	want("second placement", start.Add(15*time.Second))
	commit(s, 9, func(tx *state.Txn) { tally.AllocChanged(tx, alloc("1", nil), alloc("1", &yes)) })
	want("healthy", start.Add(19*time.Second))
	commit(s, 12, func(tx *state.Txn) { tally.AllocChanged(tx, alloc("1", &yes), alloc("1", &yes)) })
	want("healthy again", start.Add(19*time.Second))
	other := alloc("3", nil)
	other.TaskGroup = "at once"
	commit(s, 13, func(tx *state.Txn) { tally.AllocChanged(tx, nil, other) })
	if at := s.Read().Deployment("d").TaskGroups["at once"].RequireProgressBy; !at.IsZero() {
		t.Errorf("a group without progress deadline has to progress by %v", at)
	}
}

func TestUnchangedAllocationsWriteNothing(t *testing.T) {
	s := state.New()
	commit(s, 0, func(tx *state.Txn) { tx.PutDeployment(deployment("d", "g")) })
	before := s.Read().Deployment("d").ModifyIndex
	a := &api.Allocation{ID: "1", TaskGroup: "g", DeploymentID: "d"}
	commit(s, 1, func(tx *state.Txn) {
		tally.AllocChanged(tx, a, a)
		tally.AllocChanged(tx, a, nil)
		tally.AllocChanged(tx, nil, &api.Allocation{ID: "2", TaskGroup: "none", DeploymentID: "d"})
	})
	if now := s.Read().Deployment("d").ModifyIndex; now != before {
		t.Errorf("deployment was written at %d", now)
	}
}
