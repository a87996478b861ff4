package volumes_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// as is the context of a call of a method by a token with the rules.
func (r *rig) as(t *testing.T, rules string, needs wire.Needs, req any) context.Context {
	t.Helper()
	r.Edit(func(tx *state.Txn) {
		tx.PutACLPolicy(&api.ACLPolicy{Name: "p", Rules: rules})
		tx.PutACLToken(&api.ACLToken{AccessorID: "a", SecretID: "s", Type: api.ACLClientToken, Policies: []string{"p"}})
	})
	*req.(api.Authenticated).Secret() = "s"
	ctx, err := access.New(access.Config{State: r.State, Enabled: true}).Admit(r.Context(), needs, req)
	if err != nil {
		t.Fatal(err)
	}
	return ctx
}

const teamA = `
namespace "a" { policy = "write" }
plugin { policy = "read" }
`

// What a team has at the provider is neither registered, copied, seen nor deleted by another team.
func TestVolumesOfOtherNamespaces(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1", func(n *api.Node) {
		second := *n.CSINodePlugins["p"]
		second.PluginID = "p2"
		n.CSINodePlugins["p2"] = &second
		controller := *n.CSIControllerPlugins["p"]
		controller.PluginID = "p2"
		n.CSIControllerPlugins["p2"] = &controller
	})
	r.Edit(func(tx *state.Txn) {
		for _, ns := range []string{"a", "b"} {
			tx.PutNamespace(&api.Namespace{Name: ns})
		}
	})
	other := volumestest.Spec("theirs")
	other.Namespace, other.ExternalID = "b", "external-b"
	r.Register(other)
	denied := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, fault.Denied) {
			t.Errorf("%s: %v", what, err)
		}
	}
	spec := volumestest.Spec("mine")
	spec.Namespace, spec.ExternalID = "a", "external-b"
	register := &api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{spec}}
	_, err := r.Service.Register(r.as(t, teamA, wire.VolumeRegister.Needs, register), register)
	denied("register their external volume", err)

	twin := *spec
	twin.PluginID = "p2"
	register = &api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{&twin}}
	_, err = r.Service.Register(r.as(t, teamA, wire.VolumeRegister.Needs, register), register)
	denied("register it with another plugin of the same driver", err)

	clone := volumestest.Made("clone")
	clone.Namespace, clone.CloneID = "a", "external-b"
	create := &api.VolumeCreateRequest{Volumes: []*api.VolumeSpec{clone}}
	_, err = r.Service.Create(r.as(t, teamA, wire.VolumeCreate.Needs, create), create)
	denied("clone their volume", err)

	copied := volumestest.Made("copy")
	copied.Namespace, copied.SnapshotID = "a", "a snapshot that the driver does not list"
	create = &api.VolumeCreateRequest{Volumes: []*api.VolumeSpec{copied}}
	_, err = r.Service.Create(r.as(t, teamA, wire.VolumeCreate.Needs, create), create)
	denied("copy a snapshot whose source is not known", err)

	gone := &api.SnapshotDeleteRequest{PluginID: "p", ID: "a snapshot that the driver does not list", WriteRequest: api.WriteRequest{Namespace: "a"}}
	_, err = r.Service.DeleteSnapshot(r.as(t, teamA, wire.VolumeSnapshotDelete.Needs, gone), gone)
	denied("delete such a snapshot", err)

	detach := &api.VolumeDetachRequest{PluginID: "p", ExternalID: "external-b", NodeID: "n1", Force: true, WriteRequest: api.WriteRequest{Namespace: "a"}}
	_, err = r.Service.Detach(r.as(t, teamA, wire.VolumeDetach.Needs, detach), detach)
	denied("detach by the external id", err)

	list := &api.VolumeAttachmentListRequest{QueryOptions: api.QueryOptions{Namespace: "*"}}
	if out, err := r.Service.Attachments(r.as(t, teamA, wire.VolumeAttachments.Needs, list), list); err != nil || len(out.Attachments) != 0 {
		t.Errorf("attachments: %v, %v", out, err)
	}
	if err := r.Create(&api.VolumeSpec{ID: "made-by-b", Name: "the-name-of-b", Namespace: "b", PluginID: "p", RequestedCapabilities: other.RequestedCapabilities}); err != nil {
		t.Fatal(err)
	}
	made := n.Count("Controller.Create")
	for _, plugin := range []string{"p", "p2"} {
		named := volumestest.Made("named")
		named.Namespace, named.Name, named.PluginID = "a", "the-name-of-b", plugin
		create = &api.VolumeCreateRequest{Volumes: []*api.VolumeSpec{named}}
		_, err = r.Service.Create(r.as(t, teamA, wire.VolumeCreate.Needs, create), create)
		if !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "choose another name") || strings.Contains(err.Error(), "made-by-b") {
			t.Errorf("create a volume with the name of theirs by plugin %s: %v", plugin, err)
		}
	}
	if n.Count("Controller.Create") != made || n.Count("Controller.SnapshotDelete") != 0 || n.Count("Controller.Unpublish") != 0 {
		t.Error("the driver was called")
	}

	n.Lists(api.ControllerListResponse{Volumes: []*api.VolumeExternal{{ExternalID: "external-b"}, {ExternalID: "unregistered"}}}, api.ControllerSnapshotListResponse{})
	for _, plugin := range []string{"p", "p2"} {
		external := &api.VolumeExternalListRequest{PluginID: plugin, QueryOptions: api.QueryOptions{Namespace: "a"}}
		out, err := r.Service.ListExternal(r.as(t, teamA, wire.VolumeListExternal.Needs, external), external)
		if err != nil || len(out.Volumes) != 1 || out.Volumes[0].ExternalID != "unregistered" {
			t.Errorf("list what the driver of plugin %s has: %v, %v", plugin, out, err)
		}
	}

	both := teamA + `namespace "b" { capabilities = ["csi-write-volume"] }`
	register = &api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{spec}}
	if _, err := r.Service.Register(r.as(t, both, wire.VolumeRegister.Needs, register), register); err != nil {
		t.Errorf("with the right on both namespaces: %v", err)
	}
}
