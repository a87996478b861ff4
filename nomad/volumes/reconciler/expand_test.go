package reconciler_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/reconciler"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// grow asks for a larger volume than it was created with.
func (r *rig) grow(id string) error {
	larger := volumestest.Made(id)
	larger.RequestedCapacityMin = 300
	return r.Create(larger)
}

func (r *rig) owed(id string) []string {
	return r.State.Read().Volume("default", id).Provision.NodeExpansion
}

// used is a created volume that a1 uses on n1.
func used(t *testing.T, change ...func(*api.Node)) (*rig, *volumestest.Node) {
	t.Helper()
	r := newRig(t, forAnAnswer)
	n := r.Node("n1", change...)
	if err := r.Create(volumestest.Made("v")); err != nil {
		t.Fatal(err)
	}
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	return r, n
}

func TestNodeThatCannotExpandIsGivenUpAndShown(t *testing.T) {
	t.Parallel()
	for _, code := range []codes.Code{codes.OutOfRange, codes.Internal} {
		r, n := used(t)
		n.Grows(api.ControllerExpandResponse{NodeExpansionRequired: true})
		n.Says("NodeVolume.Expand", code, "the file system cannot grow")
		if err := r.grow("v"); err != nil {
			t.Fatal(err)
		}
		r.Eventually("nothing is owed", func(*state.Txn) bool { return len(r.owed("v")) == 0 })
		if d := r.Get("v"); !strings.Contains(d.LastError, "expand on node n1") || d.State != api.VolumeAvailable || d.Capacity != 300 {
			t.Errorf("%s is shown as %+v", code, d)
		}
	}
}

func TestNodeThatGaveUpIsAskedAgainWithTheSameCapacity(t *testing.T) {
	t.Parallel()
	r, n := used(t)
	n.Grows(api.ControllerExpandResponse{NodeExpansionRequired: true})
	n.Says("NodeVolume.Expand", codes.Internal, "busy")
	if err := r.grow("v"); err != nil {
		t.Fatal(err)
	}
	r.Eventually("it is given up", func(*state.Txn) bool { return len(r.owed("v")) == 0 })
	n.On("NodeVolume.Expand", nil)
	before := n.Count("NodeVolume.Expand")
	if err := r.grow("v"); err != nil {
		t.Fatal(err)
	}
	r.Eventually("the node has grown it", func(*state.Txn) bool { return len(r.owed("v")) == 0 && n.Count("NodeVolume.Expand") > before })
	r.Eventually("no error is shown", func(tx *state.Txn) bool { return tx.Volume("default", "v").Provision.LastError == "" })
	asked := n.Count("Controller.Expand")
	if err := r.grow("v"); err != nil || n.Count("Controller.Expand") != asked {
		t.Errorf("the driver is asked for what it has: %v", err)
	}
}

// An expansion whose answer was lost, and that then fails for good, may have grown the volume.
func TestSizeAfterAnExpansionOfUnknownOutcomeIsTold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		told int64
		has  int64
		fits bool
		says string
	}{
		"it has grown":               {300, 300, true, ""},
		"it has grown by a part":     {200, 200, false, "no room"},
		"it has not grown":           {100, 100, false, "no room"},
		"the provider does not tell": {0, 100, false, "may have grown the volume to 300 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, n := used(t, func(n *api.Node) { n.CSINodePlugins["p"].NodeInfo.SupportsExpand = true })
			n.Knows(api.ControllerVerifyResponse{Exists: api.KnownYes, By: "a test", CapacityBytes: c.told})
			var calls atomic.Int32
			n.On("Controller.Expand", func(context.Context, any) error {
				if calls.Add(1) == 1 {
					return volumestest.Says("Controller.Expand", codes.DeadlineExceeded, "slow")
				}
				return volumestest.Says("Controller.Expand", codes.OutOfRange, "no room")
			})
			asked := volumestest.Watch[api.NodeVolumeExpandRequest](n, "NodeVolume.Expand")
			if err := r.grow("v"); (err == nil) != c.fits || !c.fits && !strings.Contains(err.Error(), c.says) {
				t.Errorf("the answer: %v", err)
			}
			r.Eventually("nothing is owed", func(tx *state.Txn) bool {
				p := tx.Volume("default", "v").Provision
				return len(p.NodeExpansion) == 0 && p.State == api.VolumeAvailable
			})
			if d := r.Get("v"); d.Capacity != c.has || !strings.Contains(d.LastError, c.says) || c.fits && d.LastError != "" {
				t.Errorf("the volume has %d bytes (%s), wanted %d", d.Capacity, d.LastError, c.has)
			}
			if c.has > 100 && asked.Only(t).CapacityBytes != c.has {
				t.Errorf("the node was asked for %d", asked.Only(t).CapacityBytes)
			}
		})
	}
}

// What a node has not grown yet is still owed when the controller has nothing left to do.
func TestNodeOwesAnExpansionThatWasAskedForAgain(t *testing.T) {
	t.Parallel()
	r, n := used(t, func(n *api.Node) { n.CSINodePlugins["p"].NodeInfo.SupportsExpand = true })
	n.Grows(api.ControllerExpandResponse{NodeExpansionRequired: true})
	n.Says("NodeVolume.Expand", codes.Internal, "busy")
	if err := r.grow("v"); err != nil {
		t.Fatal(err)
	}
	r.Eventually("it is given up", func(*state.Txn) bool { return len(r.owed("v")) == 0 })
	n.Knows(api.ControllerVerifyResponse{Exists: api.KnownYes, By: "a test", CapacityBytes: 300})
	var calls atomic.Int32
	n.On("Controller.Expand", func(context.Context, any) error {
		if calls.Add(1) == 1 {
			return volumestest.Says("Controller.Expand", codes.DeadlineExceeded, "slow")
		}
		return volumestest.Says("Controller.Expand", codes.OutOfRange, "it is that large")
	})
	n.On("NodeVolume.Expand", nil)
	before := n.Count("NodeVolume.Expand")
	if err := r.grow("v"); err != nil {
		t.Fatal(err)
	}
	r.Eventually("the node has grown it", func(*state.Txn) bool { return len(r.owed("v")) == 0 })
	if n.Count("NodeVolume.Expand") == before {
		t.Error("the node was not asked")
	}
}

func TestNodeThatCannotExpandYetIsShownAndAskedAgain(t *testing.T) {
	t.Parallel()
	r, n := used(t)
	n.Grows(api.ControllerExpandResponse{NodeExpansionRequired: true})
	n.Says("NodeVolume.Expand", codes.Unavailable, "the plugin restarts")
	if err := r.grow("v"); err != nil {
		t.Fatal(err)
	}
	r.Eventually("it is shown", func(tx *state.Txn) bool {
		return strings.Contains(tx.Volume("default", "v").Provision.LastError, "the plugin restarts")
	})
	if len(r.owed("v")) != 1 {
		t.Errorf("owed by %v", r.owed("v"))
	}
	n.On("NodeVolume.Expand", nil)
	r.Eventually("nothing is owed", func(*state.Txn) bool { return len(r.owed("v")) == 0 })
}

func TestPluginThatExpandsOnNodesOnly(t *testing.T) {
	t.Parallel()
	r, n := used(t, func(n *api.Node) {
		n.CSIControllerPlugins["p"].ControllerInfo.SupportsExpand = false
		n.CSINodePlugins["p"].NodeInfo.SupportsExpand = true
	})
	asked := volumestest.Watch[api.NodeVolumeExpandRequest](n, "NodeVolume.Expand")
	if err := r.grow("v"); err != nil {
		t.Fatal(err)
	}
	r.Eventually("nothing is owed", func(*state.Txn) bool { return len(r.owed("v")) == 0 })
	if asked.Only(t).CapacityBytes != 300 || r.Get("v").Capacity != 300 || n.Count("Controller.Expand") != 0 {
		t.Errorf("asked for %d, calls %v", asked.Only(t).CapacityBytes, n.Calls())
	}
}

func TestSecretsReachTheExpansionOnANode(t *testing.T) {
	t.Parallel()
	r := newRig(t, forAnAnswer)
	n := r.Node("n1")
	keyed := func(capacity int64) *api.VolumeSpec {
		v := volumestest.Made("v")
		v.Secrets = map[string]string{"key": "of the volume"}
		if capacity > 0 {
			v.RequestedCapacityMin = capacity
		}
		return v
	}
	if err := r.Create(keyed(0)); err != nil {
		t.Fatal(err)
	}
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	asked := volumestest.Watch[api.NodeVolumeExpandRequest](n, "NodeVolume.Expand")
	n.Grows(api.ControllerExpandResponse{NodeExpansionRequired: true})
	if err := r.Create(keyed(300)); err != nil {
		t.Fatal(err)
	}
	r.Eventually("nothing is owed", func(*state.Txn) bool { return len(r.owed("v")) == 0 })
	if got := asked.Only(t).Secrets["key"]; got != "of the volume" {
		t.Errorf("asked with %q", got)
	}
}

func TestExpansionToNonsenseIsAnError(t *testing.T) {
	t.Parallel()
	r, n := used(t)
	for _, capacity := range []int64{-1, 200} {
		n.Grows(api.ControllerExpandResponse{CapacityBytes: capacity})
		if err := r.grow("v"); err == nil || r.Get("v").Capacity != 100 || r.Get("v").State != api.VolumeAvailable {
			t.Errorf("after an answer of %d bytes: %v, %+v", capacity, err, r.Get("v"))
		}
	}
}

// What one spec owes is due with the mount of another one of the same external volume.
func TestNodeExpansionIsOwedByAllSpecs(t *testing.T) {
	t.Parallel()
	r := newRig(t, forAnAnswer)
	n := r.Node("n1")
	if err := r.Create(volumestest.Made("v")); err != nil {
		t.Fatal(err)
	}
	twin := volumestest.Spec("w")
	twin.ExternalID = "ext-v"
	r.Register(twin)
	n.Grows(api.ControllerExpandResponse{NodeExpansionRequired: true})
	if err := r.grow("v"); err != nil {
		t.Fatal(err)
	}
	r.MustPlace(volumestest.Alloc("a1", "n1", "w", writer))
	if out := r.MustClaim("w", "a1", "n1"); !out.NodeExpand {
		n.Await(t, "NodeVolume.Expand")
	}
	r.Eventually("nothing is owed", func(*state.Txn) bool { return len(r.owed("v"))+len(r.owed("w")) == 0 })
}

func TestSpecsOfOneVolumeExpandOneAfterTheOther(t *testing.T) {
	t.Parallel()
	r := newRig(t, forAnAnswer)
	n := r.Node("n1")
	if err := r.Create(volumestest.Made("v")); err != nil {
		t.Fatal(err)
	}
	twin := volumestest.Spec("a") // before v in the order of ids
	twin.ExternalID = "ext-v"
	r.Register(twin)
	goOn := make(chan struct{})
	n.On("Controller.Expand", func(context.Context, any) error { <-goOn; return nil })
	first := make(chan error, 1)
	go func() { first <- r.grow("v") }()
	n.Await(t, "Controller.Expand")
	larger := volumestest.Spec("a")
	larger.ExternalID, larger.RequestedCapacityMin = "ext-v", 500
	_, err := r.Service.Register(r.Context(), &api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{larger}})
	if !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "being expanded") {
		t.Errorf("the second expansion: %v", err)
	}
	close(goOn)
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	r.Register(larger)
	if r.Get("a").Capacity != 500 || r.Get("v").Capacity != 500 {
		t.Errorf("capacities %d and %d", r.Get("a").Capacity, r.Get("v").Capacity)
	}
}

// Drivers that begin anew with each call need one that is long enough.
func TestCallsThatRanOutOfTimeGetMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, forAnAnswer, func(l *reconciler.Limits) { l.MakeTimeout, l.MakeTimeoutMax = 40*time.Millisecond, 10*time.Second })
		n := r.Node("n1")
		var mu sync.Mutex
		var given []time.Duration
		n.On("Controller.Create", func(ctx context.Context, _ any) error {
			until, _ := ctx.Deadline()
			mu.Lock()
			given = append(given, time.Until(until))
			tries := len(given)
			mu.Unlock()
			if tries > 3 {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		})
		if err := r.Create(volumestest.Made("v")); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(given) != 4 || given[3] < 200*time.Millisecond {
			t.Errorf("times given are %v", given)
		}
	})
}
