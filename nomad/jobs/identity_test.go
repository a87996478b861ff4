package jobs_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// A job has the identities of its parent, so that a registration cannot choose the parent.
func TestRegistrationDoesNotChooseTheParent(t *testing.T) {
	t.Parallel()
	r := open(t)
	child := web()
	child.ID, child.ParentID, child.Namespace, child.Type = "par/dispatch-1", "par", "default", api.JobTypeService
	r.put(func(tx *state.Txn) { tx.PutJob(child) })
	forged, again := web(), web()
	forged.ID, forged.ParentID = "forged", "par"
	again.ID, again.ParentID = child.ID, "other"
	for _, j := range []*api.Job{forged, again} {
		if _, err := r.Register(t.Context(), &api.JobRegisterRequest{Job: j}); err != nil {
			t.Fatal(err)
		}
	}
	for id, want := range map[string]string{"forged": "", child.ID: "par"} {
		if got := r.store.Read().Job("default", id).ParentID; got != want {
			t.Errorf("%s has the parent %q, want %q", id, got, want)
		}
	}
}
