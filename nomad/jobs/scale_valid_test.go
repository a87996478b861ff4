package jobs_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func (r *fixture) resize(count int64) error {
	_, err := r.scale(count, nil)
	return err
}

// on is the job "web" whose group uses volumes.
func on(volumes map[string]*api.VolumeRequest) *api.Job {
	j := web()
	j.TaskGroups[0].Count, j.TaskGroups[0].Volumes = 1, volumes
	return j
}

func exclusive() *api.VolumeRequest {
	return &api.VolumeRequest{Name: "data", Type: api.VolumeTypeCSI, Source: "data", AccessMode: string(api.AccessSingleNodeWriter), AttachmentMode: string(api.AttachmentFileSystem)}
}

// A count that a job cannot be run with is not reached by scaling it, nor by keeping the count of before.
func TestCountsThatRunRefusesAreRefusedWhenScaling(t *testing.T) {
	t.Parallel()
	each := exclusive()
	each.PerAlloc, each.ReadOnly = true, true
	fifth := exclusive()
	fifth.Source = "data[4]"
	for _, c := range []struct {
		name, words string
		volumes     map[string]*api.VolumeRequest
		most        int64
	}{
		{"a volume of one allocation", "allows one allocation, count is 2", map[string]*api.VolumeRequest{"data": exclusive()}, 1},
		{"per_alloc names the volume of another request", `data[4]`, map[string]*api.VolumeRequest{"each": each, "fifth": fifth}, 0},
	} {
		r := open(t)
		j := on(c.volumes)
		if c.most == 0 {
			j.TaskGroups[0].Volumes["fifth"].ReadOnly, c.most = true, 4
			j.TaskGroups[0].Volumes["fifth"].MountOptions = &api.MountOptions{FSType: "xfs"}
			j.TaskGroups[0].Volumes["fifth"].AccessMode = string(api.AccessMultiNodeReader)
		}
		r.register(j)
		if err := r.resize(c.most); err != nil {
			t.Errorf("%s: count %d: %v", c.name, c.most, err)
		}
		refused(t, r.resize(c.most+1), fault.Invalid, c.words)
		if got := r.get("web").TaskGroups[0].Count; got != int(c.most) {
			t.Errorf("%s: the count is %d", c.name, got)
		}
	}
}

func TestKeptCountsAreValidated(t *testing.T) {
	t.Parallel()
	r := open(t)
	before := web()
	before.TaskGroups[0].Count = 3
	r.register(before)
	_, err := r.Register(t.Context(), &api.JobRegisterRequest{Job: on(map[string]*api.VolumeRequest{"data": exclusive()}), PreserveCounts: true})
	refused(t, err, fault.Invalid, "allows one allocation, count is 3")
}

// What is wrong with the job apart from its count was accepted when it was run, by an older version: it is scaled.
func TestJobThatWouldNotBeAcceptedTodayIsScaled(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.register(web())
	r.put(func(tx *state.Txn) {
		j := *tx.Job("default", "web")
		j.Priority = 5000
		tx.PutJob(&j)
	})
	if err := r.resize(2); err != nil {
		t.Error(err)
	}
}

// A job that an earlier version scaled too far, or that has more than is allowed by now, gets fewer step by step: the less
// it has the less is wrong.
func TestJobWithTooManyAllocationsIsScaledDown(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.Limits.CountMax = 4
	r.register(on(map[string]*api.VolumeRequest{"data": exclusive()}))
	r.put(func(tx *state.Txn) {
		j := *tx.Job("default", "web")
		g := *j.TaskGroups[0]
		g.Count = 7
		j.TaskGroups = []*api.TaskGroup{&g}
		tx.PutJob(&j)
	})
	for _, count := range []int64{6, 5, 3} {
		if err := r.resize(count); err != nil {
			t.Errorf("to %d: %v", count, err)
		}
	}
	refused(t, r.resize(4), fault.Invalid, "allows one allocation, count is 4")
	refused(t, r.resize(5), fault.Invalid, "more than 4 allocations")
}

// The job that was judged is the one that is scaled.
func TestScalingIsJudgedAnewWhenTheJobHasChanged(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.register(web())
	changed := false
	r.before = func() {
		if !changed {
			changed = true
			r.register(on(map[string]*api.VolumeRequest{"data": exclusive()}))
		}
	}
	refused(t, r.resize(2), fault.Invalid, "allows one allocation")
	r.before = nil
	if err := r.resize(1); err != nil {
		t.Error(err)
	}
	if _, err := r.Scale(t.Context(), &api.JobScaleRequest{JobID: "web", Target: map[string]string{"Group": "g"}, Count: new(int64), JobModifyIndex: 1}); err == nil || !strings.Contains(err.Error(), "conflicting job modify index") {
		t.Errorf("with an old index: %v", err)
	}
}
