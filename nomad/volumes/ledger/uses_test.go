package ledger_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// shared lets the volume "v" be used by many.
func (b *book) shared() {
	b.must(func(tx *state.Txn) error {
		v := *tx.Volume("default", "v")
		v.RequestedCapabilities = []*api.VolumeCapability{{AccessMode: api.AccessMultiNodeMultiWriter, AttachmentMode: api.AttachmentFileSystem}}
		v.MountOptions = &api.MountOptions{FSType: "ext4", MountFlags: []string{"discard"}}
		tx.PutVolume(&v)
		return nil
	})
}

// twice uses the volume for writing as "data" and read-only as "conf".
func twice(id, node string) *api.Allocation {
	a := taker(id, node)
	a.Job.TaskGroups[0].Volumes = map[string]*api.VolumeRequest{
		"data": {Type: api.VolumeTypeCSI, Source: "v", AccessMode: "multi-node-multi-writer"},
		"conf": {Type: api.VolumeTypeCSI, Source: "v", AccessMode: "multi-node-multi-writer", ReadOnly: true, MountOptions: &api.MountOptions{MountFlags: []string{"ro", "discard"}}},
	}
	return a
}

func TestEachUseOfAVolumeHasItsClaim(t *testing.T) {
	b := newBook(t)
	b.shared()
	b.must(take(twice("a1", "n1")))
	read, write := b.state.Read().Claim("default", "v", "a1", "conf"), b.state.Read().Claim("default", "v", "a1", "data")
	if read == nil || write == nil || read.Mode != api.ClaimRead || write.Mode != api.ClaimWrite {
		t.Fatalf("claims are %+v, %+v", read, write)
	}
	if o := read.MountOptions; o.FSType != "ext4" || len(o.MountFlags) != 2 || write.MountOptions.MountFlags[0] != "discard" {
		t.Errorf("options are %+v, %+v", read.MountOptions, write.MountOptions)
	}
	b.must(func(tx *state.Txn) error { return ledger.PublishDone(tx, ledger.IntentOf(b.attachment()), nil) })
	conf := ledger.HoldOf(read)
	b.must(func(tx *state.Txn) error { return ledger.Released(tx, conf) })
	if a := b.attachment(); a.State != api.AttachmentPublished || b.state.Read().Claim("default", "v", "a1", "data").State != api.ClaimReady {
		t.Errorf("the other use ended too: %+v", a)
	}
	b.refused(fault.NotFound, func(tx *state.Txn) error { return ledger.Released(tx, conf) })
	b.must(func(tx *state.Txn) error {
		return ledger.Evict(tx, ledger.HoldOf(write), ledger.ProofAssumed, ledger.ByOperator)
	})
	if m := b.stale(); len(m) != 1 || m[0].Use != "data" {
		t.Errorf("stale mounts are %+v", m)
	}
	b.must(func(tx *state.Txn) error { return ledger.Released(tx, ledger.HoldOf(write)) })
	if m := b.stale(); len(m) != 0 {
		t.Errorf("stale mounts are %+v", m)
	}
}

func TestAllUsesFollowTheirAllocation(t *testing.T) {
	b := newBook(t)
	b.shared()
	b.must(take(twice("a1", "n1")))
	ended := twice("a1", "n1")
	ended.ClientStatus = api.AllocClientStatusFailed
	b.must(func(tx *state.Txn) error { return ledger.AllocChanged(tx, ended) })
	b.must(func(tx *state.Txn) error { return ledger.UnpublishDone(tx, ledger.IntentOf(b.attachment())) })
	for c := range b.state.Read().ClaimsByAlloc("a1") {
		t.Errorf("claim %+v is left", c)
	}
}

func TestContradictoryUsesAreNotTaken(t *testing.T) {
	b := newBook(t)
	b.shared()
	a := twice("a1", "n1")
	a.Job.TaskGroups[0].Volumes["conf"].MountOptions = &api.MountOptions{FSType: "xfs"}
	a.Job.TaskGroups[0].Volumes["data"].MountOptions = &api.MountOptions{FSType: "ext4"}
	b.refused(fault.Conflict, take(a))
	if err := ledger.Check(b.state.Read(), a, nil); err == nil || !strings.Contains(err.Error(), `"conf" and "data"`) {
		t.Errorf("error is %v", err)
	}
}

// TestTwoSpecsOfOneVolumeExcludeEachOtherInOneGroup is about a group that names an external volume under two ids.
func TestTwoSpecsOfOneVolumeExcludeEachOtherInOneGroup(t *testing.T) {
	b := newBook(t)
	b.must(func(tx *state.Txn) error {
		w := *tx.Volume("default", "v")
		w.ID = "w"
		tx.PutVolume(&w)
		return nil
	})
	a := taker("a1", "n1")
	a.Job.TaskGroups[0].Volumes["w"] = &api.VolumeRequest{Type: api.VolumeTypeCSI, Source: "w"}
	b.refused(fault.Conflict, take(a))
}

func TestUsesThatNeedTwoAttachmentsAreRefused(t *testing.T) {
	for _, second := range []*api.VolumeCapability{
		{AccessMode: api.AccessMultiNodeSingleWriter, AttachmentMode: api.AttachmentFileSystem},
		{AccessMode: api.AccessSingleNodeWriter, AttachmentMode: api.AttachmentBlock},
	} {
		b := newBook(t)
		b.must(func(tx *state.Txn) error {
			v := *tx.Volume("default", "v")
			v.RequestedCapabilities = append(v.RequestedCapabilities, second)
			tx.PutVolume(&v)
			return nil
		})
		a := taker("a1", "n1")
		a.Job.TaskGroups[0].Volumes["w"] = &api.VolumeRequest{
			Type: api.VolumeTypeCSI, Source: "v", AccessMode: string(second.AccessMode), AttachmentMode: string(second.AttachmentMode),
		}
		b.refused(fault.Conflict, take(a)) // "v" is asked for in the volume's first way
		if err := ledger.Check(b.state.Read(), a, nil); !strings.Contains(err.Error(), `"v"`) || !strings.Contains(err.Error(), `"w"`) {
			t.Error(err)
		}
	}
}

func TestSpecOfReadersDoesNotAttachForWritersOfAnotherReadOnly(t *testing.T) {
	b := newBook(t)
	b.must(func(tx *state.Txn) error {
		n := *tx.Node("n1")
		n.CSIControllerPlugins = map[string]*api.CSIInfo{"p": {
			Healthy: true, RequiresControllerPlugin: true,
			ControllerInfo: &api.CSIControllerInfo{SupportsAttachDetach: true, SupportsReadOnlyAttach: true},
		}}
		tx.PutNode(&n)
		v := *tx.Volume("default", "v")
		v.RequestedCapabilities = []*api.VolumeCapability{{AccessMode: api.AccessMultiNodeMultiWriter, AttachmentMode: api.AttachmentFileSystem}}
		tx.PutVolume(&v)
		r := v
		r.ID = "readers"
		r.RequestedCapabilities = []*api.VolumeCapability{{AccessMode: api.AccessMultiNodeReader, AttachmentMode: api.AttachmentFileSystem}}
		tx.PutVolume(&r)
		return nil
	})
	both := taker("a1", "n1")
	both.Job.TaskGroups[0].Volumes["readers"] = &api.VolumeRequest{Type: api.VolumeTypeCSI, Source: "readers", ReadOnly: true}
	b.must(take(both))
	if a := b.attachment(); a.AccessMode != api.AccessMultiNodeMultiWriter || a.ReadOnly {
		t.Fatalf("attached as %s, read-only %v", a.AccessMode, a.ReadOnly)
	}
}
