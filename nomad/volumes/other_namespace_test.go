package volumes_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// An external volume may be registered in two namespaces. Readers of one do not learn from reports, reasons and refusals
// which jobs and allocations of the other have it.
func TestUsersInOtherNamespacesAreNotNamed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Halt()
	r.Node("n1")
	r.Node("n2", volumestest.NodeOnly)
	in := func(ns, id string) *api.VolumeSpec {
		s := volumestest.Spec(id)
		s.Namespace, s.ExternalID = ns, "ext-shared"
		return s
	}
	of := func(ns, job string) func(*api.Allocation) {
		return func(a *api.Allocation) {
			volumestest.Of(job)(a)
			a.Namespace, a.Job.Namespace = ns, ns
		}
	}
	holder := volumestest.Alloc("hidden-alloc", "n1", "w", writer, of("b", "hidden-job"))
	waiting := volumestest.Alloc("a2", "n2", "v", writer, of("a", "job"))
	r.Edit(func(tx *state.Txn) {
		for _, ns := range []string{"a", "b"} {
			tx.PutNamespace(&api.Namespace{Name: ns})
		}
		for _, s := range []*api.VolumeSpec{in("a", "v"), in("b", "w")} {
			tx.PutVolume(&api.Volume{VolumeSpec: *s, Provision: api.VolumeProvision{State: api.VolumeAvailable}})
		}
		tx.PutAlloc(holder)
		tx.PutAlloc(waiting)
		claim := api.VolumeClaim{PluginID: "p", ExternalID: "ext-shared", Mode: api.ClaimWrite, AccessMode: writer, AttachmentMode: api.AttachmentFileSystem, Attach: true}
		has, waits := claim, claim
		has.Namespace, has.VolumeID, has.AllocID, has.JobID, has.NodeID, has.State = "b", "w", "hidden-alloc", "hidden-job", "n1", api.ClaimReady
		has.LastError = "unmount /alloc/hidden-alloc"
		waits.Namespace, waits.VolumeID, waits.AllocID, waits.JobID, waits.NodeID, waits.State = "a", "v", "a2", "job", "n2", api.ClaimWaiting
		waits.Predecessor = "hidden-alloc"
		tx.PutClaim(&has)
		tx.PutClaim(&waits)
		tx.PutAttachment(&api.VolumeAttachment{PluginID: "p", ExternalID: "ext-shared", NodeID: "n1", State: api.AttachmentPublished, LastError: "the array reboots", Since: 7})
		n := *tx.Node("n2")
		n.StaleMounts = []*api.StaleMount{{Namespace: "b", VolumeID: "w", AllocID: "hidden-old", PluginID: "p", ExternalID: "ext-shared", Since: 3, LastError: "busy"}}
		tx.PutNode(&n)
	})

	said := map[string]any{}
	keep := func(what string, out any, err error) {
		t.Helper()
		if said[what] = out; err != nil {
			said[what] = err.Error()
		}
	}
	q := api.QueryOptions{Namespace: "a"}
	examine := &api.VolumeDoctorRequest{ID: "v", QueryOptions: q}
	report, err := r.Service.Doctor(r.as(t, teamA, wire.VolumeDoctor.Needs, examine), examine)
	keep("doctor", report, err)
	attached := &api.VolumeAttachmentListRequest{QueryOptions: q}
	rows, err := r.Service.Attachments(r.as(t, teamA, wire.VolumeAttachments.Needs, attached), attached)
	keep("attachments", rows, err)
	read := &api.VolumeGetRequest{ID: "v", QueryOptions: q}
	detail, err := r.Service.Get(r.as(t, teamA, wire.VolumeGet.Needs, read), read)
	keep("volume", detail, err)
	claim := &api.VolumeClaimRequest{VolumeID: "v", AllocID: "a2", NodeID: "n2", NodeSecret: "secret-n2", Tell: true, WriteRequest: api.WriteRequest{Namespace: "a"}}
	reason, err := r.Service.Claim(r.Context(), claim)
	keep("why a claim waits", reason, err)
	keep("placement", nil, r.Place(volumestest.Alloc("a3", "n2", "v", writer, of("a", "another"))))
	end := &api.VolumeDetachRequest{VolumeID: "v", NodeID: "n1", Force: true, WriteRequest: api.WriteRequest{Namespace: "a"}}
	_, err = r.Service.Detach(r.as(t, teamA, wire.VolumeDetach.Needs, end), end)
	keep("detach", nil, err)
	for what, out := range said {
		text, err := json.Marshal(out)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "hidden") || string(text) == "null" {
			t.Errorf("%s: %s", what, text)
		}
	}
	text, _ := json.Marshal([]any{said["why a claim waits"], said["placement"]})
	if strings.Count(string(text), "an allocation of another namespace on node n1") != 2 {
		t.Errorf("who waits reads %s", text)
	}

	all, err := r.Service.Doctor(r.Context(), &api.VolumeDoctorRequest{ID: "v", QueryOptions: q})
	if err != nil {
		t.Fatal(err)
	}
	text, _ = json.Marshal(all)
	for _, name := range []string{"hidden-alloc", "hidden-job", "hidden-old"} {
		if !strings.Contains(string(text), name) {
			t.Errorf("a caller with all rights does not see %s: %s", name, text)
		}
	}
}
