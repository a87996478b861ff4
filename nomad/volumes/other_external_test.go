package volumes_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// reused is a volume "v" whose id was that of another external one, "ext-v", before: that one was deregistered by force
// while the node n1 still had it mounted.
func reused(t *testing.T, change ...func(*api.Node)) *rig {
	t.Helper()
	r := newRig(t)
	r.Node("n1", change...)
	r.Node("n2", change...)
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	r.Ends("a1", api.AllocClientStatusComplete)
	if _, err := r.Service.Deregister(r.Context(), &api.VolumeDeregisterRequest{VolumeID: "v", Force: true}); err != nil {
		t.Fatal(err)
	}
	next := volumestest.Spec("v")
	next.ExternalID = "ext-next"
	next.MountOptions = &api.MountOptions{FSType: "xfs"}
	r.Register(next)
	return r
}

// Claims belong to the external volume: they are not those of what has the id now.
func TestClaimsOfAnEarlierExternalVolumeAreNotThoseOfTheID(t *testing.T) {
	t.Parallel()
	r := reused(t)
	if got := r.Get("v"); len(got.Claims)+len(got.WriteAllocs)+len(got.Allocations) > 0 || got.AccessMode != "" {
		t.Errorf("the volume shows %d claims, %v", len(got.Claims), got.WriteAllocs)
	}
	list, err := r.Service.List(r.Context(), &api.VolumeListRequest{})
	if err != nil || len(list.Volumes) != 1 || list.Volumes[0].CurrentWriters != 0 {
		t.Errorf("listed are %+v, %v", list.Volumes[0], err)
	}
	other := volumestest.Spec("v", api.AccessMultiNodeMultiWriter) // without the mode of the earlier claim
	other.ExternalID = "ext-next"
	r.Register(other)
	if _, err := r.Service.Deregister(r.Context(), &api.VolumeDeregisterRequest{VolumeID: "v"}); err != nil {
		t.Errorf("a volume that nobody uses is not deregistered: %v", err)
	}
	r.Unmounted("v", "a1", "n1")
	r.Free("v")
}

// What ended of the earlier external volume is not told of the one that has its id now.
func TestEndOfAnEarlierExternalVolumeIsNotRemembered(t *testing.T) {
	t.Parallel()
	r := reused(t)
	r.Unmounted("v", "a1", "n1")
	r.Free("v")
	if got := r.State.Read().Volume("default", "v").Releases; len(got) > 0 {
		t.Errorf("remembered is %+v", got[0])
	}
}

// The id means what has it now; the earlier one is detached by the command that its attachment names.
func TestDetachByIDIsAboutWhatHasTheIDNow(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*api.Node){"attached": func(*api.Node) {}, "not attached": volumestest.NoController} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := reused(t, change)
			detach := func(req *api.VolumeDetachRequest) {
				t.Helper()
				req.NodeID, req.Force = "n1", true
				if _, err := r.Service.Detach(r.Context(), req); err != nil {
					t.Error(err)
				}
			}
			detach(&api.VolumeDetachRequest{VolumeID: "v"})
			if s := r.ClaimState("v", "a1"); s != api.ClaimReleasing {
				t.Fatalf("the claim of the earlier one is %q", s)
			}
			twin := volumestest.Spec("twin")
			twin.ExternalID = "ext-v"
			r.Register(twin)
			err := r.Delete("twin")
			if fault.Of(err) != fault.Conflict || !strings.Contains(err.Error(), "nomad volume detach -force -plugin p -external-id ext-v n1") {
				t.Errorf("who waits for it is told %v", err)
			}
			detach(&api.VolumeDetachRequest{PluginID: "p", ExternalID: "ext-v"})
			r.Eventually("the earlier one is free", func(tx *state.Txn) bool { return tx.Claim("default", "v", "a1", "") == nil })
		})
	}
}

// Of several external volumes that had an id the one on the named node is meant when none has it any more.
func TestDetachByAnIDThatIsGoneIsAboutTheNode(t *testing.T) {
	t.Parallel()
	r := reused(t)
	r.MustPlace(volumestest.Alloc("a2", "n2", "v", writer))
	r.MustClaim("v", "a2", "n2")
	r.Ends("a2", api.AllocClientStatusComplete)
	if _, err := r.Service.Deregister(r.Context(), &api.VolumeDeregisterRequest{VolumeID: "v", Force: true}); err != nil {
		t.Fatal(err)
	}
	for alloc, node := range map[string]string{"a1": "n1", "a2": "n2"} {
		if _, err := r.Service.Detach(r.Context(), &api.VolumeDetachRequest{VolumeID: "v", NodeID: node, Force: true}); err != nil {
			t.Error(err)
		}
		if s := r.ClaimState("v", alloc); s == api.ClaimReleasing {
			t.Errorf("the claim on %s is %s", node, s)
		}
	}
}

// The secrets of a volume that was deregistered by force are its attachments'.
func TestReportsShowNoSecretsOfAForgottenVolume(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Node("n1")
	v := volumestest.Spec("v")
	v.Secrets = map[string]string{"key": "hunter2hunter2"}
	r.Register(v)
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	r.Ends("a1", api.AllocClientStatusComplete)
	if _, err := r.Service.Deregister(r.Context(), &api.VolumeDeregisterRequest{VolumeID: "v", Force: true}); err != nil {
		t.Fatal(err)
	}
	if err := r.Report("v", "a1", "n1", "login with hunter2hunter2 failed"); err != nil {
		t.Fatal(err)
	}
	if c := r.State.Read().Claim("default", "v", "a1", ""); c.LastError == "" || strings.Contains(c.LastError, "hunter2") {
		t.Errorf("the claim says %q", c.LastError)
	}
}
