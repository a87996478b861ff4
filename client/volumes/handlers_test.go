package volumes_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
	"github.com/open-nomad/open-nomad/plugins/csi/hostpath"
)

// The leader is asked for what the driver is about to be asked for: an index alone may be that of several intents.
func TestLeaderIsAskedForTheVeryCall(t *testing.T) {
	r := newRig(t, fake.Config{})
	r.plugIn("plug")
	var asked *api.VolumeIntentRequest
	r.servers.mu.Lock()
	r.servers.intentFn = func(q *api.VolumeIntentRequest) error {
		asked = q
		return fault.New(fault.Conflict, "not now")
	}
	r.servers.mu.Unlock()
	c, ctx := api.ControllerCall{PluginID: "p", Fence: 7}, r.ctx()
	for want, call := range map[api.VolumeIntentRequest]func(context.Context) error{
		{Call: api.CallAttach, ExternalID: "v", Part: "i-1"}: func(ctx context.Context) error {
			_, err := handle(r, ctx, wire.ControllerPublish, &api.ControllerPublishRequest{ControllerCall: c, ExternalID: "v", ProviderNodeID: "i-1"})
			return err
		},
		{Call: api.CallDetach, ExternalID: "v", Part: "i-1"}: func(ctx context.Context) error {
			_, err := handle(r, ctx, wire.ControllerUnpublish, &api.ControllerUnpublishRequest{ControllerCall: c, ExternalID: "v", ProviderNodeID: "i-1"})
			return err
		},
		{Call: api.CallCreate, Part: "name"}: func(ctx context.Context) error {
			_, err := handle(r, ctx, wire.ControllerCreate, &api.ControllerCreateRequest{ControllerCall: c, Name: "name"})
			return err
		},
		{Call: api.CallDelete, ExternalID: "v"}: func(ctx context.Context) error {
			_, err := handle(r, ctx, wire.ControllerDelete, &api.ControllerDeleteRequest{ControllerCall: c, ExternalID: "v"})
			return err
		},
		{Call: api.CallExpand, ExternalID: "v"}: func(ctx context.Context) error {
			_, err := handle(r, ctx, wire.ControllerExpand, &api.ControllerExpandRequest{ControllerCall: c, ExternalID: "v"})
			return err
		},
		{Call: api.CallSnapshot, ExternalID: "v", Part: "s"}: func(ctx context.Context) error {
			_, err := handle(r, ctx, wire.ControllerSnapshot, &api.ControllerSnapshotRequest{ControllerCall: c, ExternalID: "v", Name: "s"})
			return err
		},
		{Call: api.CallSnapshotDelete, Part: "id"}: func(ctx context.Context) error {
			_, err := handle(r, ctx, wire.ControllerSnapshotDelete, &api.ControllerSnapshotDeleteRequest{ControllerCall: c, ID: "id"})
			return err
		},
	} {
		asked = nil
		if err := call(ctx); !errors.Is(err, fault.Conflict) || asked == nil {
			t.Errorf("%s: %v, asked %+v", want.Call, err, asked)
			continue
		}
		if got := (api.VolumeIntentRequest{Call: asked.Call, ExternalID: asked.ExternalID, Part: asked.Part}); got != want || asked.Fence != 7 {
			t.Errorf("for %+v the leader is asked %+v", want, asked)
		}
	}
}

// A plugin that becomes another driver while it is asked may have answered as either of them.
func TestAnswerOfAPluginThatBecameAnotherDriverIsLost(t *testing.T) {
	r := newRig(t, fake.Config{})
	r.plugIn("plug")
	begun, told := make(chan struct{}), make(chan struct{})
	var once sync.Once
	r.driver.Change(func(c *fake.Config) {
		c.Pace = func(c fake.Call) time.Duration {
			if c.RPC == "DeleteVolume" {
				once.Do(func() { close(begun); <-told })
			}
			return 0
		}
	})
	answer := make(chan error, 1)
	go func() {
		_, err := handle(r, r.ctx(), wire.ControllerDelete, &api.ControllerDeleteRequest{
			ControllerCall: api.ControllerCall{PluginID: "p", Fence: 5, Provider: "fake.open-nomad.dev"}, ExternalID: "v",
		})
		answer <- err
	}()
	<-begun
	r.driver.Change(func(c *fake.Config) { c.Name = "another" })
	r.node("another driver", func(i *api.CSIInfo) bool { return i != nil && i.Provider == "another" })
	close(told)
	if err := <-answer; fault.Of(err) != fault.Internal || !strings.Contains(err.Error(), `changed to driver "another"`) {
		t.Errorf("answered: %v", err)
	}
}

// The rows of nodes tell late which driver a plugin is: a call that is meant for one reaches no other.
func TestCallThatIsMeantForAnotherDriverIsRefused(t *testing.T) {
	r := newRig(t, fake.Config{})
	r.plugIn("plug")
	for driver, refused := range map[string]bool{"": false, "fake.open-nomad.dev": false, "another": true} {
		c := api.ControllerCall{PluginID: "p", Provider: driver}
		_, err := handle(r, r.ctx(), wire.ControllerList, &api.ControllerListRequest{ControllerCall: c})
		if refused != errors.Is(err, fault.Conflict) || refused && !strings.Contains(err.Error(), `call is for driver "another"`) || !refused && err != nil {
			t.Errorf("%q: %v", driver, err)
		}
	}
}

func TestLateCreationDoesNotMakeADeletedVolumeAgain(t *testing.T) {
	r := newRig(t, fake.Config{})
	r.plugIn("plug")
	create := func(fence uint64) (*api.ControllerCreateResponse, error) {
		return handle(r, r.ctx(), wire.ControllerCreate, &api.ControllerCreateRequest{
			ControllerCall: api.ControllerCall{PluginID: "p", Fence: fence}, Name: "made",
			Capabilities: []*api.VolumeCapability{{AccessMode: api.AccessSingleNodeWriter, AttachmentMode: api.AttachmentFileSystem}},
		})
	}
	made, err := create(5)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := handle(r, r.ctx(), wire.ControllerDelete, &api.ControllerDeleteRequest{
		ControllerCall: api.ControllerCall{PluginID: "p", Fence: 7}, ExternalID: made.ExternalID, Name: "made",
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := create(5); !errors.Is(err, fault.Conflict) {
		t.Errorf("a creation of before the deletion answers %v", err)
	}
	if n := r.count("CreateVolume"); n != 1 {
		t.Errorf("the driver was asked %d times", n)
	}
	if _, err := create(9); err != nil {
		t.Errorf("a later creation: %v", err)
	}
}

// withHostpath plugs the embedded driver into the rig and creates a volume with it.
func withHostpath(t *testing.T, r *rig, c hostpath.Config, mode api.AttachmentMode) (externalID string) {
	t.Helper()
	p := r.prepare("plug", api.CSIPluginTypeMonolith)
	_, env, err := p.task.Prepare()
	if err != nil {
		t.Fatal(err)
	}
	c.Endpoint, c.StateDir = env["CSI_ENDPOINT"], filepath.Join(r.dir, "hostpath")
	ctx, cancel := context.WithCancel(context.Background())
	p.stopDriver = cancel
	go func() {
		defer close(p.served)
		if err := hostpath.Run(ctx, c); err != nil {
			t.Error(err)
		}
	}()
	r.supervise(p)
	r.healthy()
	v, err := handle(r, r.ctx(), wire.ControllerCreate, &api.ControllerCreateRequest{
		ControllerCall: api.ControllerCall{PluginID: "p"}, Name: "v", CapacityMinBytes: 1 << 20,
		Capabilities: []*api.VolumeCapability{{AccessMode: api.AccessSingleNodeWriter, AttachmentMode: mode}},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.servers.onClaim(func(_ context.Context, _ *api.VolumeClaimRequest, out *api.VolumeClaimResponse) error {
		out.Claim.ExternalID, out.Claim.AttachmentMode, out.Claim.AccessMode = v.ExternalID, mode, api.AccessSingleNodeWriter
		return nil
	})
	return v.ExternalID
}

func TestBlockDeviceIsADevice(t *testing.T) {
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		t.Skip("no loop devices here")
	}
	r := newRig(t, fake.Config{})
	id := withHostpath(t, r, hostpath.Config{NodeID: "n1"}, api.AttachmentBlock)
	m, err := r.svc.Up(r.ctx(), workload("w"))
	if err != nil {
		t.Fatal(err)
	}
	i, err := os.Stat(m["a"].Source)
	if err != nil || i.Mode()&os.ModeDevice == 0 || !m["a"].Device {
		t.Errorf("mount %+v is %v: %v", m["a"], i, err)
	}
	if err := os.WriteFile(m["a"].Source, []byte("raw"), 0); err != nil {
		t.Error(err)
	}
	if _, err := handle(r, r.ctx(), wire.ControllerExpand, &api.ControllerExpandRequest{
		ControllerCall: api.ControllerCall{PluginID: "p"}, ExternalID: id, CapacityMinBytes: 2 << 20,
	}); err != nil {
		t.Error(err)
	}
	if _, err := handle(r, r.ctx(), wire.NodeVolumeExpand, &api.NodeVolumeExpandRequest{
		Namespace: "default", VolumeID: "v", ExternalID: id, PluginID: "p", CapacityBytes: 2 << 20,
	}); err != nil {
		t.Error(err)
	}
	r.down("w")
	if _, err := os.Lstat(m["a"].Source); !os.IsNotExist(err) {
		t.Errorf("the target is still there: %v", err)
	}
	if _, err := handle(r, r.ctx(), wire.ControllerDelete, &api.ControllerDeleteRequest{
		ControllerCall: api.ControllerCall{PluginID: "p"}, ExternalID: id,
	}); err != nil {
		t.Error(err)
	}
}

func TestSecretsReachTheExpansionOfANode(t *testing.T) {
	r := newRig(t, fake.Config{})
	r.plugIn("plug")
	r.up(workload("w"))
	r.driver.Storage().RequireSecrets("v", map[string]string{"key": "of the volume"}, true)
	expand := func(secret string) error {
		_, err := handle(r, r.ctx(), wire.NodeVolumeExpand, &api.NodeVolumeExpandRequest{
			Namespace: "default", VolumeID: "v", ExternalID: "v", PluginID: "p", CapacityBytes: 2 << 20,
			Secrets: map[string]string{"key": secret},
		})
		return err
	}
	var said *fault.Call
	if err := expand("of another"); !errors.As(err, &said) || !said.Credentials() || strings.Contains(err.Error(), "of another") {
		t.Errorf("with a wrong secret: %v", err)
	}
	if err := expand("of the volume"); err != nil {
		t.Error(err)
	}
	r.down("w")
}

func TestAttachedVolumeUsesThePublishContext(t *testing.T) {
	r := newRig(t, fake.Config{})
	id := withHostpath(t, r, hostpath.Config{NodeID: "n1", Attach: true}, api.AttachmentFileSystem)
	attach := &api.ControllerPublishRequest{
		ControllerCall: api.ControllerCall{PluginID: "p", Fence: 7}, ExternalID: id, ProviderNodeID: "n1",
		AccessMode: api.AccessSingleNodeWriter, AttachmentMode: api.AttachmentFileSystem,
	}
	out, err := handle(r, r.ctx(), wire.ControllerPublish, attach)
	if err != nil {
		t.Fatal(err)
	}
	r.servers.onClaim(func(_ context.Context, _ *api.VolumeClaimRequest, reply *api.VolumeClaimResponse) error {
		reply.Claim.ExternalID, reply.Claim.AccessMode, reply.PublishContext = id, api.AccessSingleNodeWriter, out.PublishContext
		return nil
	})
	r.up(workload("w"))
	r.down("w")
	late := *attach
	late.Fence = 6
	if _, err := handle(r, r.ctx(), wire.ControllerPublish, &late); !errors.Is(err, fault.Conflict) {
		t.Errorf("a call of an older intent answers %v", err)
	}
	if _, err := handle(r, r.ctx(), wire.ControllerUnpublish, &api.ControllerUnpublishRequest{
		ControllerCall: api.ControllerCall{PluginID: "p", Fence: 8}, ExternalID: id, ProviderNodeID: "n1",
	}); err != nil {
		t.Error(err)
	}
	log, err := hostpath.Violations(filepath.Join(r.dir, "hostpath"))
	if err != nil || len(log) != 0 {
		t.Errorf("violations %+v: %v", log, err)
	}
}

func TestMissingControllerIsUnavailable(t *testing.T) {
	r := newRig(t, fake.Config{})
	_, err := handle(r, r.ctx(), wire.ControllerDelete, &api.ControllerDeleteRequest{ControllerCall: api.ControllerCall{PluginID: "p"}, ExternalID: "v"})
	if !errors.Is(err, fault.Unavailable) {
		t.Errorf("the error is %v", err)
	}
}

func TestNodeDetachOfUnknownAllocation(t *testing.T) {
	r := newRig(t, fake.Config{})
	r.plugIn("plug")
	ask := &api.NodeVolumeDetachRequest{Namespace: "default", VolumeID: "v", ExternalID: "v", PluginID: "p", AllocID: "w"}
	if _, err := handle(r, r.ctx(), wire.NodeVolumeDetach, ask); err != nil {
		t.Errorf("nothing is there: %v", err)
	}
	r.up(workload("w"))
	if _, err := handle(r, r.ctx(), wire.NodeVolumeDetach, ask); !errors.Is(err, fault.Conflict) {
		t.Errorf("detach under a running allocation: %v", err)
	}
	// The journal is lost, and with it all memory of the allocation: the mount is found by its path.
	r.stop()
	r.journal.m = nil
	r.start()
	r.supervise(r.plug)
	r.healthy()
	if _, err := handle(r, r.ctx(), wire.NodeVolumeDetach, ask); !errors.Is(err, fault.Unavailable) {
		t.Errorf("detach of a mount that a task may use: %v", err)
	}
	r.svc.Listed([]*api.Allocation{workload("w")})
	r.svc.Settled()
	if _, err := handle(r, r.ctx(), wire.NodeVolumeDetach, ask); err != nil {
		t.Errorf("detach of a forgotten mount: %v", err)
	}
	if u := r.driver.Storage().Use("v"); len(u.Published) != 0 {
		t.Errorf("still published at %v", u.Published)
	}
}
