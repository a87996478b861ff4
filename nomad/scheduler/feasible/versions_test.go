package feasible_test

import (
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// One evaluation may place allocations of two versions of a job, whose groups use a volume in different ways: who keeps
// the one out need not keep out the other.
func TestVersionsOfAGroupAreJudgedApart(t *testing.T) {
	s := state.New()
	const mode = api.AccessMultiNodeSingleWriter
	tx := s.Write(1, time.Unix(1, 0))
	n := &api.Node{ID: "n1", Status: api.NodeStatusReady, CSINodePlugins: map[string]*api.CSIInfo{
		"p": {PluginID: "p", Healthy: true, NodeInfo: &api.CSINodeInfo{ID: "i-1"}},
	}}
	tx.PutNode(n)
	tx.PutVolume(&api.Volume{
		VolumeSpec: api.VolumeSpec{
			ID: "v", Name: "v", Namespace: "default", PluginID: "p",
			RequestedCapabilities: []*api.VolumeCapability{{AccessMode: mode, AttachmentMode: api.AttachmentFileSystem}},
		},
		Provision: api.VolumeProvision{State: api.VolumeAvailable, ExternalID: "x"},
	})
	tx.PutClaim(&api.VolumeClaim{
		Namespace: "default", VolumeID: "v", AllocID: "writer", NodeID: "n1", JobID: "other", PluginID: "p", ExternalID: "x",
		Mode: api.ClaimWrite, AccessMode: mode, AttachmentMode: api.AttachmentFileSystem, State: api.ClaimReady,
	})
	tx.Commit()
	vs := feasible.NewVolumes(s.Read(), "default", map[string]bool{})
	refusal := func(readOnly bool) string {
		g := &api.TaskGroup{Name: "g", Volumes: map[string]*api.VolumeRequest{"v": {
			Name: "v", Type: api.VolumeTypeCSI, Source: "v", ReadOnly: readOnly, AccessMode: string(mode), AttachmentMode: "file-system",
		}}}
		return vs.Ask(g, &api.Allocation{ID: "a", Namespace: "default", Name: "j.g[0]", JobID: "j", TaskGroup: "g"}).Refusal(n)
	}
	if why := refusal(true); why != "" {
		t.Errorf("the version that reads: %s", why)
	}
	if why := refusal(false); !strings.Contains(why, "held for writing by allocation writer") {
		t.Errorf("the version that writes: %q", why)
	}
}
