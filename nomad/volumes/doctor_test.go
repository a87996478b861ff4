package volumes_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/reconciler"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// finding returns the finding of a kind; nil when there is none.
func finding(t *testing.T, r *volumestest.Rig, volume, kind string) *api.StorageFinding {
	t.Helper()
	out, err := r.Service.Doctor(r.Context(), &api.VolumeDoctorRequest{ID: volume})
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(out.Findings, func(f *api.StorageFinding) bool { return f.Kind == kind }); i >= 0 {
		return out.Findings[i]
	}
	return nil
}

func TestDoctorNamesTheHolderOnALostNode(t *testing.T) {
	t.Parallel()
	r := volumestest.New(t, func(l *reconciler.Limits) { l.FenceAfter = time.Hour })
	r.Node("n1")
	r.Node("n2", volumestest.NodeOnly)
	r.Register(volumestest.Spec("v"), volumestest.Spec("w"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	if f := finding(t, r, "v", "in-use"); f == nil || f.AllocID != "a1" {
		t.Errorf("the user is %+v", f)
	}
	r.Down("n1", 0)
	r.MustPlace(volumestest.Alloc("a2", "n2", "v", writer), "a1")
	r.Eventually("the claim says what it waits for", func(tx *state.Txn) bool {
		c := tx.Claim("default", "v", "a1", "")
		return c != nil && c.State == api.ClaimReleasing && c.NextRetry != 0
	})
	f := finding(t, r, "v", "node-lost")
	if f == nil || f.AllocID != "a1" || f.NodeID != "n1" || f.JobID != "job" || f.Severity != api.SeverityError || f.Repair != "" ||
		f.Command != "nomad volume detach -force v n1" || !strings.Contains(f.Next, "detached by its storage") || f.NextAt <= time.Now().UnixNano() {
		t.Errorf("the holder is %+v", f)
	}
	if f := finding(t, r, "v", "claim-waits"); f == nil || f.AllocID != "a2" || !strings.Contains(f.Text, "allocation a1 of job \"job\" on node n1 holds") || f.Command != "nomad volume detach -force v n1" {
		t.Errorf("the waiting claim is %+v", f)
	}
	all, err := r.Service.Doctor(r.Context(), &api.VolumeDoctorRequest{QueryOptions: api.QueryOptions{Namespace: "*"}})
	if err != nil || all.Volumes != 2 || slices.ContainsFunc(all.Findings, func(f *api.StorageFinding) bool { return f.Severity == api.SeverityInfo }) {
		t.Errorf("all volumes: %+v %v", all, err)
	}
}

// A repair makes the failed calls at once; it asserts nothing.
func TestRepairRetriesCallsBeforeTheirTime(t *testing.T) {
	t.Parallel()
	r := volumestest.New(t, func(l *reconciler.Limits) { l.RetryMin, l.RetryMax = time.Hour, time.Hour })
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"))
	n.Says("Controller.Publish", codes.Unavailable, "the array reboots")
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.Eventually("the attach fails", func(tx *state.Txn) bool {
		a := tx.Attachment("p", "ext-v", "n1")
		return a != nil && a.LastError != ""
	})
	if f := finding(t, r, "v", "attach-failing"); f == nil || f.Repair != api.RepairRetry || !strings.Contains(f.Text, "the array reboots") || f.NextAt == 0 {
		t.Fatalf("found %+v", f)
	}
	n.On("Controller.Publish", nil)
	out, err := r.Service.Repair(r.Context(), &api.VolumeRepairRequest{ID: "v"})
	if err != nil || len(out.Repairs) != 1 || out.Repairs[0].Error != "" || out.Repairs[0].Repair != api.RepairRetry {
		t.Fatalf("repaired %+v %v", out, err)
	}
	r.MustClaim("v", "a1", "n1")
}

// A node that does not unmount keeps the volume also after a repair.
func TestRepairAsksTheNodeToUnmount(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	r.Ends("a1", api.AllocClientStatusComplete)
	n.Says("NodeVolume.Detach", codes.FailedPrecondition, "target is busy")
	out, err := r.Service.Repair(r.Context(), &api.VolumeRepairRequest{ID: "v"})
	if err != nil || len(out.Repairs) != 1 || !strings.Contains(out.Repairs[0].Error, "target is busy") || r.ClaimState("v", "a1") != api.ClaimReleasing {
		t.Fatalf("repaired %+v %v, the claim is %s", out, err, r.ClaimState("v", "a1"))
	}
	n.On("NodeVolume.Detach", nil)
	if out, err = r.Service.Repair(r.Context(), &api.VolumeRepairRequest{ID: "v"}); err != nil || out.Repairs[0].Error != "" {
		t.Fatalf("repaired %+v %v", out, err)
	}
	r.Free("v")
}

func TestDoctorReportsJobsThatWait(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Node("n1")
	r.Register(volumestest.Spec("v"))
	a := volumestest.Alloc("a1", "n1", "v", writer)
	reason := `CSI volume "v" is held for writing by allocation a0`
	r.Edit(func(tx *state.Txn) {
		tx.PutJob(a.Job)
		tx.PutEval(&api.Evaluation{ID: "e1", Namespace: "default", JobID: "job", Status: api.EvalStatusBlocked, CreateTime: 5, FailedTGAllocs: map[string]*api.AllocationMetric{
			"g": {ConstraintFiltered: map[string]int{reason: 1, "${attr.kernel.name} = linux": 1}},
		}})
	})
	if f := finding(t, r.Rig, "v", "job-waits"); f == nil || f.JobID != "job" || !strings.Contains(f.Text, reason) || f.Since != 5 {
		t.Errorf("found %+v", f)
	}
}

func TestPluginDoctorCallsTheInstances(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one, two := r.Node("n1"), r.Node("n2", volumestest.NodeOnly)
	r.Register(volumestest.Spec("v"))
	one.Replies("NodePlugin.Probe", func(out any) {
		*out.(*api.NodePluginProbeResponse) = api.NodePluginProbeResponse{Instances: []*api.PluginInstance{
			{Type: api.CSIPluginTypeController, Asked: true, Ready: true, Version: "1"},
			{Type: api.CSIPluginTypeNode, AllocID: "plugin-n1", Asked: true, Ready: true, Provider: "prov", Version: "2", ProviderNodeID: "provider-n1", Socket: "/x/csi.sock"},
		}}
	})
	two.On("NodePlugin.Probe", func(context.Context, any) error {
		return volumestest.Says("NodePlugin.Probe", codes.Unavailable, "no socket")
	})
	out, err := r.Service.PluginDoctor(r.Context(), &api.PluginDoctorRequest{ID: "p"})
	if err != nil || out.Plugins != 1 || len(out.Reports[0].Instances) != 3 {
		t.Fatalf("got %+v %v", out, err)
	}
	if i := out.Reports[0].Instances[1]; i.NodeID != "n1" || i.Type != api.CSIPluginTypeNode || !i.Ready || i.Socket != "/x/csi.sock" || i.Version != "2" {
		t.Errorf("the node instance is %+v", i)
	}
	var kinds []string
	for _, f := range out.Findings {
		kinds = append(kinds, f.Kind)
	}
	if !slices.Contains(kinds, "call-failed") || !slices.Contains(kinds, "versions-differ") {
		t.Errorf("found %v", kinds)
	}
	if out, err := r.Service.PluginDoctor(r.Context(), &api.PluginDoctorRequest{ID: "none"}); err != nil || out.Plugins != 0 {
		t.Errorf("a plugin that does not exist: %+v %v", out, err)
	}
}
