package volumes_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
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

// Servers come to know whose volume it is by the answers about it.
func TestAnswersAreSignedWithTheDriver(t *testing.T) {
	r := newRig(t, fake.Config{})
	r.plugIn("plug")
	created, err := handle(r, r.ctx(), wire.ControllerCreate, &api.ControllerCreateRequest{
		ControllerCall: api.ControllerCall{PluginID: "p", Fence: 5}, Name: "signed",
		Capabilities: []*api.VolumeCapability{{AccessMode: api.AccessSingleNodeWriter, AttachmentMode: api.AttachmentFileSystem}},
	})
	if err != nil || created.Provider != "fake.open-nomad.dev" {
		t.Fatalf("%+v: %v", created, err)
	}
	valid, err := handle(r, r.ctx(), wire.ControllerValidate, &api.ControllerValidateRequest{
		ControllerCall: api.ControllerCall{PluginID: "p"}, ExternalID: created.ExternalID,
		Capabilities: []*api.VolumeCapability{{AccessMode: api.AccessSingleNodeWriter, AttachmentMode: api.AttachmentFileSystem}},
	})
	if err != nil || valid.Provider != "fake.open-nomad.dev" {
		t.Fatalf("%+v: %v", valid, err)
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
	if err := <-answer; fault.Of(err) != fault.Internal || !strings.Contains(err.Error(), `became driver "another"`) {
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
		if refused != errors.Is(err, fault.Conflict) || refused && !strings.Contains(err.Error(), `driver "another" is meant`) || !refused && err != nil {
			t.Errorf("%q: %v", driver, err)
		}
	}
}
