package jobs_test

import (
	"strings"
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

func (r *fixture) claims(on bool) {
	r.put(func(tx *state.Txn) {
		if on {
			tx.PutClaim(&api.VolumeClaim{Namespace: "default", VolumeID: "v", AllocID: "a1", NodeID: "n1", JobID: "db", PluginID: "p", ExternalID: "x", State: api.ClaimReleasing})
			return
		}
		tx.DeleteClaim("default", "v", "a1", "")
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

func TestPluginThatAnotherJobRunsOnTheNodeIsStopped(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.register(provider("driver"))
	r.register(provider("driver-2"))
	r.claims(true)
	stop := func(id string) error {
		_, err := r.Deregister(t.Context(), &api.JobDeregisterRequest{JobID: id})
		return err
	}
	instance := func(node, status string) {
		r.put(func(tx *state.Txn) {
			tx.PutNode(&api.Node{ID: node, Status: api.NodeStatusReady})
			tx.PutAlloc(&api.Allocation{
				ID: "i", Namespace: "default", JobID: "driver-2", NodeID: node, TaskGroup: "g", Job: tx.Job("default", "driver-2"),
				DesiredStatus: api.AllocDesiredStatusRun, ClientStatus: status,
			})
		})
	}
	refused(t, stop("driver"), fault.Conflict, "in use")
	instance("n1", api.AllocClientStatusPending)
	refused(t, stop("driver"), fault.Conflict, "in use")
	instance("n2", api.AllocClientStatusRunning)
	refused(t, stop("driver"), fault.Conflict, "in use")
	instance("n1", api.AllocClientStatusRunning)
	if err := stop("driver"); err != nil {
		t.Error(err)
	}
	refused(t, stop("driver-2"), fault.Conflict, "in use")
}

func TestReplacingAPluginInUseIsWarnedOf(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.register(provider("driver"))
	changed := func() *api.Job {
		j := provider("driver")
		j.TaskGroups[0].Tasks[0].Env = map[string]string{"LOG": "debug"}
		return j
	}
	plan := func(j *api.Job) string {
		out, err := r.Plan(t.Context(), &api.JobPlanRequest{Job: j})
		if err != nil {
			t.Fatal(err)
		}
		return out.Warnings
	}
	if w := plan(changed()); w != "" {
		t.Errorf("nobody uses it: %q", w)
	}
	r.claims(true)
	r.put(func(tx *state.Txn) {
		tx.PutClaim(&api.VolumeClaim{Namespace: "default", VolumeID: "w", AllocID: "a2", NodeID: "n2", JobID: "db", PluginID: "p", ExternalID: "y", State: api.ClaimReady})
		tx.PutAttachment(&api.VolumeAttachment{PluginID: "p", ExternalID: "x", NodeID: "n1", State: api.AttachmentPublished})
	})
	if w := plan(provider("driver")); w != "" {
		t.Errorf("nothing changes: %q", w)
	}
	const want = `CSI plugin "p" is replaced while it has 2 volumes mounted on 2 nodes and 1 external volume attached`
	if w := plan(changed()); !strings.Contains(w, want) || !strings.Contains(w, "on_mount_dead") {
		t.Errorf("plan: %q", w)
	}
	if w := r.register(changed()).Warnings; !strings.Contains(w, want) {
		t.Errorf("registration: %q", w)
	}
	other := provider("driver")
	other.TaskGroups[0].Tasks[0].CSIPluginConfig.Type = api.CSIPluginTypeNode
	if w := plan(other); !strings.Contains(w, "will be refused: job \"driver\" changes the type of the CSI plugin \"p\" from monolith to node") {
		t.Errorf("another type: %q", w)
	}
	out, err := r.Revert(t.Context(), &api.JobRevertRequest{JobID: "driver", JobVersion: 0})
	if err != nil || !strings.Contains(out.Warnings, want) {
		t.Errorf("going back: %+v %v", out, err)
	}
}
