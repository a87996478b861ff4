package fake_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/csi"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

// A client whose connection is a call of a function learns of a call what one over a socket learns.
func TestConnectionWithoutNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := fake.New(fake.Config{Attach: true})
		d.Storage().Add("v")
		c, err := csi.New(csi.Config{Socket: "p", Connect: func(_ string, h stats.Handler) grpc.ClientConnInterface { return d.Conn(h) }})
		if err != nil {
			t.Fatal(err)
		}
		if ready, err := c.Probe(t.Context()); err != nil || !ready {
			t.Fatalf("ready %v, %v", ready, err)
		}
		publish := func(ctx context.Context) error {
			_, err := c.ControllerPublish(ctx, &api.ControllerPublishRequest{
				ExternalID: "v", ProviderNodeID: "fake-node", AccessMode: api.AccessSingleNodeWriter, AttachmentMode: api.AttachmentFileSystem,
			})
			return err
		}
		if err := publish(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := d.Storage().Use("v").Attached; len(got) != 1 || got[0] != "fake-node" {
			t.Errorf("attached to %v", got)
		}
		for _, tt := range []struct {
			name      string
			fault     fake.Fault
			uncertain bool
			code      string
		}{
			{"a code", fake.Fault{Code: codes.Internal}, true, "Internal"},
			{"a call that hangs", fake.Fault{Hang: true}, true, "DeadlineExceeded"},
		} {
			d.Heal()
			tt.fault.RPC = "ControllerPublishVolume"
			d.Script(tt.fault)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			err := publish(ctx)
			cancel()
			if call := (*fault.Call)(nil); !errors.As(err, &call) || call.Code != tt.code || call.Uncertain != tt.uncertain {
				t.Errorf("%s: %v", tt.name, err)
			}
		}
		d.Heal()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err = publish(ctx)
		if call := (*fault.Call)(nil); err == nil || errors.As(err, &call) && call.Uncertain {
			t.Errorf("a call that was never sent: %v", err)
		}
		if v := d.Storage().Violations(); len(v) > 0 {
			t.Error(v)
		}
		time.Sleep(time.Hour) // calls are cancelled a while after they were given up
	})
}
