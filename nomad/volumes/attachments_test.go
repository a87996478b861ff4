package volumes_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

func TestAttachmentsNameTheCommandThatEndsThem(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Halt()
	r.Node("n1")
	r.Node("n2", volumestest.NodeOnly)
	used, over, foreign := volumestest.Alloc("a1", "n1", "used", writer), volumestest.Alloc("a2", "n1", "over", writer), volumestest.Spec("its own")
	next := volumestest.Alloc("a3", "n1", "next", writer)
	over.ClientStatus = api.AllocClientStatusComplete
	foreign.ID, foreign.Namespace, foreign.ExternalID = "theirs", "team", "ext-theirs"
	attached := func(tx *state.Txn, external, node string, st api.AttachmentState, failure string) {
		tx.PutAttachment(&api.VolumeAttachment{PluginID: "p", ExternalID: external, NodeID: node, State: st, LastError: failure, Since: 7, NextRetry: 8, Attempts: 9})
	}
	r.Edit(func(tx *state.Txn) {
		for _, a := range []*api.Allocation{used, over, next} {
			tx.PutAlloc(a)
		}
		for _, v := range []*api.VolumeSpec{volumestest.Spec("used"), volumestest.Spec("over"), volumestest.Spec("stuck"), volumestest.Spec("next"), foreign} {
			tx.PutVolume(&api.Volume{VolumeSpec: *v, Provision: api.VolumeProvision{State: api.VolumeAvailable}})
		}
		for id, alloc := range map[string]string{"used": "a1", "over": "a2"} {
			tx.PutClaim(&api.VolumeClaim{Namespace: "default", VolumeID: id, AllocID: alloc, NodeID: "n1", JobID: "job", PluginID: "p", ExternalID: "ext-" + id, State: api.ClaimReady})
		}
		for _, id := range []string{"used", "over", "theirs"} {
			attached(tx, "ext-"+id, "n1", api.AttachmentPublished, "")
		}
		attached(tx, "ext-stuck", "gone", api.AttachmentUnpublishing, "INTERNAL")
		// Who waits for the end of a detach keeps nothing attached.
		tx.PutClaim(&api.VolumeClaim{Namespace: "default", VolumeID: "next", AllocID: "a3", NodeID: "n1", JobID: "job", PluginID: "p", ExternalID: "ext-next", Attach: true, State: api.ClaimTaken})
		attached(tx, "ext-next", "n1", api.AttachmentUnpublishing, "")
		tx.PutClaim(&api.VolumeClaim{Namespace: "default", VolumeID: "stuck", AllocID: "a3", NodeID: "n2", JobID: "job", PluginID: "p", ExternalID: "ext-stuck", Attach: true, State: api.ClaimTaken})
		attached(tx, "ext-stuck", "n2", api.AttachmentWrittenOff, "")
		tx.PutClaim(&api.VolumeClaim{Namespace: "default", VolumeID: "stuck", AllocID: "a3", Use: "other", NodeID: "n3", JobID: "job", PluginID: "p", ExternalID: "ext-stuck", Attach: true, State: api.ClaimTaken})
		attached(tx, "ext-stuck", "n3", api.AttachmentPublishing, "")
		attached(tx, "it's nobody's", "n2", api.AttachmentUnpublishing, "")
		n := *tx.Node("n2")
		n.StaleMounts = []*api.StaleMount{{Namespace: "default", VolumeID: "used", AllocID: "old", PluginID: "p", ExternalID: "ext-used", Since: 3, LastError: "busy"}}
		tx.PutNode(&n)
	})
	list := func(q api.VolumeAttachmentListRequest) []*api.AttachmentStub {
		t.Helper()
		out, err := r.Service.Attachments(r.Context(), &q)
		if err != nil {
			t.Fatal(err)
		}
		return out.Attachments
	}
	all := list(api.VolumeAttachmentListRequest{})
	want := []api.AttachmentStub{
		{NodeID: "gone", ExternalID: "ext-stuck", Namespace: "default", VolumeID: "stuck", State: "unpublishing", LastError: "INTERNAL", Remedy: "nomad volume detach -force stuck gone"},
		{NodeID: "n1", NodeName: "n1", ExternalID: "ext-next", Namespace: "default", VolumeID: "next", State: "unpublishing", Remedy: "nomad volume detach -force next n1"},
		{NodeID: "n1", NodeName: "n1", ExternalID: "ext-over", Namespace: "default", VolumeID: "over", State: "published", Claims: 1, Remedy: "nomad volume detach over n1"},
		{NodeID: "n1", NodeName: "n1", ExternalID: "ext-theirs", Namespace: "team", VolumeID: "theirs", State: "published", Remedy: "nomad volume detach -force -namespace team theirs n1"},
		{NodeID: "n1", NodeName: "n1", ExternalID: "ext-used", Namespace: "default", VolumeID: "used", State: "published", Claims: 1, Remedy: "nomad job stop job"},
		{NodeID: "n2", NodeName: "n2", ExternalID: "ext-stuck", Namespace: "default", VolumeID: "stuck", State: "written off", Remedy: "nomad volume detach -force stuck n2"},
		{NodeID: "n2", NodeName: "n2", ExternalID: "ext-used", Namespace: "default", VolumeID: "used", AllocID: "old", State: "stale mount", LastError: "busy", Since: 3, Remedy: "nomad volume detach -force used n2"},
		{NodeID: "n2", NodeName: "n2", ExternalID: "it's nobody's", State: "unpublishing", Remedy: `nomad volume detach -force -plugin p -external-id 'it'\''s nobody'\''s' n2`},
		{NodeID: "n3", ExternalID: "ext-stuck", Namespace: "default", VolumeID: "stuck", State: "publishing", Claims: 1, Remedy: "nomad job stop job"},
	}
	if len(all) != len(want) {
		t.Fatalf("%d rows", len(all))
	}
	for i, w := range want {
		w.PluginID = "p"
		if w.AllocID == "" {
			w.Since, w.NextRetry, w.Attempts = 7, 8, 9
		}
		if *all[i] != w {
			t.Errorf("row %d is\n%+v, want\n%+v", i, *all[i], w)
		}
	}
	for _, c := range []struct {
		what string
		q    api.VolumeAttachmentListRequest
		n    int
	}{
		{"node", api.VolumeAttachmentListRequest{NodeID: "n2"}, 3},
		{"node that is gone", api.VolumeAttachmentListRequest{NodeID: "gone"}, 1},
		{"volume", api.VolumeAttachmentListRequest{VolumeID: "used"}, 2},
		{"volume of another namespace", api.VolumeAttachmentListRequest{VolumeID: "theirs"}, 0},
		{"plugin", api.VolumeAttachmentListRequest{PluginID: "q"}, 0},
	} {
		if got := list(c.q); len(got) != c.n {
			t.Errorf("of one %s: %d rows, want %d", c.what, len(got), c.n)
		}
	}
	// The node does not unmount under tasks that still run.
	stopping := *over
	stopping.DesiredStatus, stopping.ClientStatus = api.AllocDesiredStatusStop, api.AllocClientStatusRunning
	r.Edit(func(tx *state.Txn) { tx.PutAlloc(&stopping) })
	if got := list(api.VolumeAttachmentListRequest{NodeID: "n1"})[1].Remedy; got != "nomad alloc signal -s SIGKILL a2" {
		t.Errorf("while its tasks are being stopped it is ended by %q", got)
	}
	// A node that is disconnected cannot be asked.
	r.Change("n1", func(n *api.Node) { n.Status = api.NodeStatusDisconnected })
	if got := list(api.VolumeAttachmentListRequest{NodeID: "n1"})[1].Remedy; got != "nomad volume detach -force over n1" {
		t.Errorf("on a disconnected node it is ended by %q", got)
	}
}
