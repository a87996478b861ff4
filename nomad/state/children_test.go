package state_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func TestInstancesOfAJobAreFound(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	write(s, 20, func(tx *state.Txn) {
		tx.PutJob(&api.Job{ID: "p", Namespace: "default"})
		tx.PutJob(&api.Job{ID: "p/1", ParentID: "p", Namespace: "default", DispatchIdempotencyToken: "x"})
		tx.PutJob(&api.Job{ID: "p/2", ParentID: "p", Namespace: "default"})
		tx.PutJob(&api.Job{ID: "p/2", ParentID: "p", Namespace: "other"})
		tx.PutJob(&api.Job{ID: "pp/1", ParentID: "pp", Namespace: "default", DispatchIdempotencyToken: "x"})
	})
	tx := s.Read()
	found := ""
	for j := range tx.JobsByParent("default", "p") {
		found += j.ID + " "
	}
	if found != "p/1 p/2 " {
		t.Errorf("instances %q", found)
	}
	if j := tx.JobByToken("default", "p", "x"); j == nil || j.ID != "p/1" {
		t.Errorf("by token %+v", j)
	}
	if j := tx.JobByToken("default", "p", ""); j != nil {
		t.Errorf("no token finds %q", j.ID)
	}
	w := s.Watch(state.JobChildrenKey("default", "p"))
	defer w.Stop()
	write(s, 21, func(tx *state.Txn) { tx.DeleteJob("default", "p/2") })
	select {
	case <-w.C():
	default:
		t.Error("who watches the instances is not woken")
	}
}

func TestPoliciesAndLaunchesLeaveWithTheirJob(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	write(s, 20, func(tx *state.Txn) {
		tx.PutJob(&api.Job{ID: "web", Namespace: "default", TaskGroups: []*api.TaskGroup{{
			Name: "g", Scaling: &api.ScalingPolicy{ID: "one"}, Tasks: []*api.Task{{ScalingPolicies: []*api.ScalingPolicy{{ID: "two"}}}},
		}}})
		tx.PutLaunch("default", "web", time.Unix(100, 0))
		tx.PutJobScaling(&api.JobScalingEvents{Namespace: "default", JobID: "web"})
	})
	tx := s.Read()
	if tx.JobByPolicy("one") == nil || tx.JobByPolicy("two") == nil || tx.JobByPolicy("three") != nil {
		t.Error("policies are not found")
	}
	write(s, 21, func(tx *state.Txn) { tx.DeleteJob("default", "web") })
	tx = s.Read()
	if tx.JobByPolicy("one") != nil || tx.JobScaling("default", "web") != nil || !tx.LastLaunch("default", "web").IsZero() {
		t.Error("something of the job is left")
	}
}
