package jobs_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func provider(id string) *api.Job {
	j := web()
	j.ID, j.Name = id, id
	j.TaskGroups[0].Tasks[0].CSIPluginConfig = &api.CSIPluginConfig{ID: "p", Type: api.CSIPluginTypeMonolith}
	return j
}

func (r *room) claims(on bool) {
	r.put(func(tx *state.Txn) {
		if on {
			tx.PutClaim(&api.VolumeClaim{Namespace: "default", VolumeID: "v", AllocID: "a1", NodeID: "n1", JobID: "db", PluginID: "p", ExternalID: "x", State: api.ClaimReleasing})
			return
		}
		tx.DeleteClaim("default", "v", "a1")
		tx.PutAttachment(&api.VolumeAttachment{PluginID: "p", ExternalID: "x", NodeID: "n1", State: api.AttachmentUnpublishing})
	})
}

func TestPluginThatVolumesNeedIsNotStopped(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.register(provider("driver"))
	r.claims(true)
	stop := func(q api.JobDeregisterRequest) error {
		q.JobID = "driver"
		_, err := r.Deregister(t.Context(), &q)
		return err
	}
	refused(t, stop(api.JobDeregisterRequest{}), fault.Conflict, `volume "v" by allocation a1 of job "db" on node n1; stop those jobs first, or stop this one with -force`)
	refused(t, stop(api.JobDeregisterRequest{Purge: true}), fault.Conflict, "in use")
	r.claims(false)
	refused(t, stop(api.JobDeregisterRequest{}), fault.Conflict, `external volume "x" attached to node n1`)

	bare := provider("driver")
	bare.TaskGroups[0].Tasks[0].CSIPluginConfig = nil
	_, err := r.Register(t.Context(), &api.JobRegisterRequest{Job: bare})
	refused(t, err, fault.Conflict, "in use")
	none := provider("driver")
	none.TaskGroups[0].Count = 0
	_, err = r.Register(t.Context(), &api.JobRegisterRequest{Job: none})
	refused(t, err, fault.Conflict, "in use")
	if j := r.get("driver"); j.Stop || j.Version != 0 {
		t.Errorf("the job was changed: %+v", j)
	}

	if err := stop(api.JobDeregisterRequest{Force: true}); err != nil || !r.get("driver").Stop {
		t.Errorf("with force: %v", err)
	}
}

func TestPluginThatAnotherJobProvidesIsStopped(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.register(provider("driver"))
	r.register(provider("driver-2"))
	r.claims(true)
	if _, err := r.Deregister(t.Context(), &api.JobDeregisterRequest{JobID: "driver"}); err != nil {
		t.Error(err)
	}
	_, err := r.Deregister(t.Context(), &api.JobDeregisterRequest{JobID: "driver-2"})
	refused(t, err, fault.Conflict, "in use")
}
