package volumes_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

func TestPoliciesOfNodeLossAreChecked(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Node("n1")
	v := volumestest.Spec("v")
	v.OnNodeLoss, v.FenceAfter, v.Lease = "panic", -1, time.Millisecond
	_, err := r.Service.Register(r.Context(), &api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{v}})
	if !errors.Is(err, fault.Invalid) {
		t.Fatal(err)
	}
	for _, want := range []string{`on_node_loss "panic" is unknown: use one of fence, wait, assume`, "fence_after -1ns is negative", "lease 1ms is too short"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

func TestOwnersThatCannotBeAreRefused(t *testing.T) {
	r := newRig(t)
	r.Node("n1")
	for want, spoil := range map[string]func(*api.VolumeSpec){
		"owner.uid -1 is no user id: use 0 to 4294967294": func(v *api.VolumeSpec) { v.Owner = &api.VolumeOwner{UID: -1} },
		"owner.gid 4294967295 is no group id":             func(v *api.VolumeSpec) { v.Owner = &api.VolumeOwner{GID: 1<<32 - 1} },
		`owner.mode "rwx" is not octal: use a string such as "0750"`: func(v *api.VolumeSpec) {
			v.Owner = &api.VolumeOwner{Mode: "rwx"}
		},
		`owner.policy "often" is unknown: use one of root-mismatch, always, never`: func(v *api.VolumeSpec) {
			v.Owner = &api.VolumeOwner{Policy: "often"}
		},
		"write_back 3m0s does not fit: it is a part of the lease (5m0s), and half of it at most": func(v *api.VolumeSpec) { v.WriteBack = 3 * time.Minute },
		"write_back 31s does not fit: it is a part of the lease (1m0s)":                          func(v *api.VolumeSpec) { v.Lease, v.WriteBack = time.Minute, 31*time.Second },
		"lease 2562047h47m16.854775807s is too long: use 8760h0m0s or less":                      func(v *api.VolumeSpec) { v.Lease = math.MaxInt64 },
		"write_back -1s does not fit":                                                            func(v *api.VolumeSpec) { v.WriteBack = -time.Second },
		`on_mount_dead "panic" is unknown: use one of ignore, republish, restart, signal`:        func(v *api.VolumeSpec) { v.OnMountDead = "panic" },
		"capability 1 is a block device, which has no file system to own: leave out owner": func(v *api.VolumeSpec) {
			v.Owner, v.RequestedCapabilities[0].AttachmentMode = &api.VolumeOwner{}, api.AttachmentBlock
		},
	} {
		v := volumestest.Made("v")
		spoil(v)
		if err := r.Create(v); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("create: want %q, got %v", want, err)
		}
		v.ExternalID = "ext"
		_, err := r.Service.Register(r.Context(), &api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{v}})
		if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("register: want %q, got %v", want, err)
		}
	}
}

func TestOwnerChangesWhileClaimed(t *testing.T) {
	r := newRig(t)
	r.Node("n1")
	v := volumestest.Spec("v")
	v.Owner = &api.VolumeOwner{UID: 1, GID: 2}
	r.Register(v)
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", api.AccessSingleNodeWriter))
	r.MustClaim("v", "a1", "n1")
	v = volumestest.Spec("v")
	v.Owner, v.OnMountDead = &api.VolumeOwner{UID: 3, GID: 4, Mode: "0700", Policy: api.OwnerAlways}, api.MountDeadRestart
	r.Register(v)
	if d := r.Get("v"); *d.Owner != *v.Owner || d.OnMountDead != api.MountDeadRestart || len(d.WriteAllocs) != 1 {
		t.Errorf("owner %+v, on_mount_dead %q, %d writers", d.Owner, d.OnMountDead, len(d.WriteAllocs))
	}
	if got := r.MustClaim("v", "a1", "n1").Volume.Owner; *got != *v.Owner {
		t.Errorf("the node is told %+v", got)
	}
	r.Register(volumestest.Spec("v"))
	if d := r.Get("v"); d.Owner != nil || d.OnMountDead != "" || r.ClaimState("v", "a1") != api.ClaimReady {
		t.Errorf("taken back: owner %+v, on_mount_dead %q, claim %s", d.Owner, d.OnMountDead, r.ClaimState("v", "a1"))
	}
}
