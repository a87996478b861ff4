package csi_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/csi"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts/mountstest"
)

// silent is a driver without ABORTED that goes on with its work whatever its caller does.
func silent(t *testing.T, work time.Duration) (*fake.Driver, *csi.Client) {
	t.Helper()
	d := fake.New(fake.Config{Deaf: true, Attach: true, Host: mountstest.New("n")})
	d.Storage().Add("v")
	cl := direct(t, d, nil)
	if _, err := cl.Fingerprint(t.Context(), csi.Services{Controller: true, Node: true}); err != nil {
		t.Fatal(err)
	}
	d.Script(fake.Fault{RPC: "ControllerPublishVolume", Times: 1, Delay: work})
	return d, cl
}

func attach(ctx context.Context, cl *csi.Client) error {
	_, err := cl.ControllerPublish(ctx, &api.ControllerPublishRequest{
		ExternalID: "v", ProviderNodeID: "fake-node", AccessMode: api.AccessSingleNodeWriter, AttachmentMode: api.AttachmentFileSystem,
	})
	return err
}

func detach(ctx context.Context, cl *csi.Client) error {
	return cl.ControllerUnpublish(ctx, &api.ControllerUnpublishRequest{ExternalID: "v", ProviderNodeID: "fake-node"})
}

func TestNextCallWaitsForOneThatWasGivenUp(t *testing.T) {
	for name, give := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"cancelled": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel)
			return ctx, cancel
		},
		"timed out": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, cl := silent(t, 5*time.Second)
				ctx, cancel := give(t.Context())
				defer cancel()
				begin := time.Now()
				var said *fault.Call
				if err := attach(ctx, cl); !errors.As(err, &said) || !said.Uncertain || time.Since(begin) != time.Second {
					t.Errorf("given up after %s: %v", time.Since(begin), err)
				}
				if err := detach(t.Context(), cl); err != nil {
					t.Error(err)
				}
				truth := d.Storage().Use("v")
				if len(truth.Attached) != 0 || len(d.Storage().Overlaps()) != 0 || time.Since(begin) != 5*time.Second {
					t.Errorf("after %s: attached %v, overlaps %q", time.Since(begin), truth.Attached, d.Storage().Overlaps())
				}
			})
		})
	}
}

func TestCallThatIsNotSentIsNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, cl := silent(t, 5*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = attach(ctx, cl)
		short, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		err := detach(short, cl)
		var said *fault.Call
		if err == nil || errors.As(err, &said) || !errors.Is(err, fault.Unavailable) || !errors.Is(err, context.DeadlineExceeded) ||
			!strings.Contains(err.Error(), "ControllerPublishVolume") {
			t.Errorf("the error is %v", err)
		}
		if n := len(d.Calls("ControllerUnpublishVolume")); n != 0 {
			t.Errorf("%d calls were sent", n)
		}
		time.Sleep(10 * time.Second)
	})
}

func TestSilentCallDoesNotHoldItsObjectForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := fake.New(fake.Config{Attach: true})
		d.Storage().Add("v")
		cl := direct(t, d, nil)
		d.Script(fake.Fault{RPC: "ControllerPublishVolume", Hang: true}) // until it is cancelled
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = attach(ctx, cl)
		begin := time.Now()
		if err := detach(t.Context(), cl); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took < 10*time.Second || took > 12*time.Second {
			t.Errorf("the next call came after %s", took)
		}
		if o := d.Storage().Overlaps(); len(o) != 0 {
			t.Error(o)
		}
	})
}

func TestOtherObjectsDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, cl := silent(t, time.Hour)
		d.Storage().Add("w")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = attach(ctx, cl)
		begin := time.Now()
		if err := cl.DeleteVolume(t.Context(), &api.ControllerDeleteRequest{ExternalID: "w"}); err != nil || time.Since(begin) != 0 {
			t.Errorf("another volume waits %s: %v", time.Since(begin), err)
		}
		if _, err := cl.Validate(t.Context(), &api.ControllerValidateRequest{ExternalID: "v", Capabilities: creation("v").Capabilities}); err != nil || time.Since(begin) != 0 {
			t.Errorf("a question waits %s: %v", time.Since(begin), err)
		}
		time.Sleep(2 * time.Hour)
	})
}

func TestCallsForOneObjectFollowEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := fake.New(fake.Config{Attach: true, Pace: func(fake.Call) time.Duration { return time.Second }})
		d.Storage().Add("v")
		cl := direct(t, d, nil)
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if err := attach(t.Context(), cl); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if o := d.Storage().Overlaps(); len(o) != 0 {
			t.Error(o)
		}
	})
}
