package volumes_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes"
)

// seen keeps the requests that a node gets for one method.
type seen[T any] struct {
	mu  sync.Mutex
	all []*T
}

func watch[T any](n *node, method string) *seen[T] {
	s := &seen[T]{}
	n.on(method, func(_ context.Context, req any) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all = append(s.all, req.(*T))
		return nil
	})
	return s
}

func (s *seen[T]) only(t *testing.T) *T {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) != 1 {
		t.Fatalf("%d calls, wanted one", len(s.all))
	}
	return s.all[0]
}

// records is a log that tests read.
type records struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (r *records) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.Write(b)
}

func (r *records) loud() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, line := range strings.Split(r.buf.String(), "\n") {
		if strings.Contains(line, "[ERROR]") || strings.Contains(line, "[WARN]") {
			out = append(out, line)
		}
	}
	return out
}

// S43: what is expected to be refused, or to be tried again, is no error of the server; the refusal
// names the volume and its holder.
func TestS43ExpectedRefusalsAreNotLoggedAsErrors(t *testing.T) {
	r := newRig(t)
	r.halt()
	log := &records{}
	r.room = volumes.New(volumes.Config{
		Log:   hclog.New(&hclog.LoggerOptions{Output: log, Level: hclog.Trace}),
		State: r.state, Raft: r.raft, Nodes: r.nodes, Limits: quick(),
	})
	r.start()
	n := r.node("n1")
	r.node("n2", nodeOnly)
	r.register(spec("v"))
	r.mustPlace(alloc("a1", "n1", "v", writer))
	r.mustClaim("v", "a1", "n1")

	err := r.place(alloc("a2", "n2", "v", writer, of("other")))
	if !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), `volume "v"`) || !strings.Contains(err.Error(), "a1") {
		t.Errorf("refusal is %v", err)
	}
	if _, err := r.claim("v", "a2", "n2"); !strings.Contains(err.Error(), `volume "v"`) {
		t.Errorf("refusal is %v", err)
	}
	if _, err := r.room.Delete(r.ctx(), &api.VolumeDeleteRequest{VolumeID: "v"}); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), `"v"`) {
		t.Errorf("refusal is %v", err)
	}
	n.fails("Controller.Unpublish", fault.New(fault.Internal, "device is busy"))
	r.ends("a1", api.AllocClientStatusComplete)
	r.unmounted("v", "a1", "n1")
	r.eventually("the failure is shown", func(tx *state.Txn) bool {
		a := tx.Attachment("p", "ext-v", "n1")
		return a != nil && strings.Contains(a.LastError, "busy")
	})
	n.on("Controller.Unpublish", nil)
	r.free("v")
	if lines := log.loud(); len(lines) > 0 {
		t.Errorf("logged: %s", strings.Join(lines, "\n"))
	}
}

// S51: an allocation out of sight keeps its claim while its node may come back; once it was fenced its
// return gets nothing, and its late report does not touch the claim of its replacement.
func TestS51VolumeOfAnUnknownAllocationHasOneUser(t *testing.T) {
	r := newRig(t)
	n1, n2 := r.node("n1"), r.node("n2")
	r.register(spec("v"))
	r.mustPlace(alloc("a1", "n1", "v", writer))
	r.mustClaim("v", "a1", "n1")
	r.change("n1", func(n *api.Node) { n.Status = api.NodeStatusDisconnected })
	r.ends("a1", api.AllocClientStatusUnknown)
	if s := r.claimState("v", "a1"); s != api.ClaimReady {
		t.Fatalf("the claim of an allocation out of sight is %q", s)
	}
	r.mustPlace(alloc("a2", "n2", "v", writer), "a1")
	if s := r.claimState("v", "a2"); s != api.ClaimWaiting {
		t.Fatalf("the claim of its replacement is %q", s)
	}
	if n1.count("Controller.Unpublish")+n2.count("Controller.Unpublish") != 0 {
		t.Fatal("detached from a node that may come back")
	}

	n1.disconnect()
	r.down("n1", time.Minute)
	if got := r.mustClaim("v", "a2", "n2"); got.Claim.State != api.ClaimReady {
		t.Fatalf("the replacement's claim is %q", got.Claim.State)
	}
	r.change("n1", func(n *api.Node) { n.Status = api.NodeStatusReady })
	if _, err := r.claim("v", "a1", "n1"); err == nil {
		t.Error("the allocation that is back got the volume beside its replacement")
	}
	r.unmounted("v", "a1", "n1")
	if s := r.claimState("v", "a2"); s != api.ClaimReady {
		t.Errorf("after the late report the replacement's claim is %q", s)
	}
}

// P3: the secrets of the attachment reach its detachment, also when the volume is forgotten meanwhile.
func TestP3SecretsReachControllerUnpublish(t *testing.T) {
	for _, forget := range []bool{false, true} {
		r := newRig(t)
		n := r.node("n1")
		on, off := watch[api.ControllerPublishRequest](n, "Controller.Publish"), watch[api.ControllerUnpublishRequest](n, "Controller.Unpublish")
		v := spec("v")
		v.Secrets = map[string]string{"key": "value"}
		r.register(v)
		r.mustPlace(alloc("a1", "n1", "v", writer))
		r.mustClaim("v", "a1", "n1")
		r.ends("a1", api.AllocClientStatusComplete)
		if forget {
			if _, err := r.room.Deregister(r.ctx(), &api.VolumeDeregisterRequest{VolumeID: "v", Force: true}); err != nil {
				t.Fatal(err)
			}
		}
		r.unmounted("v", "a1", "n1")
		r.free("v")
		if a, b := on.only(t), off.only(t); a.Secrets["key"] != "value" || b.Secrets["key"] != "value" {
			t.Errorf("forgotten %v: attached with %v, detached with %v", forget, a.Secrets, b.Secrets)
		}
	}
}

// P4: the job's mount options are in the attachment, the volume's in its validation.
func TestP4MountOptionsReachTheController(t *testing.T) {
	r := newRig(t)
	n := r.node("n1")
	checked, on := watch[api.ControllerValidateRequest](n, "Controller.Validate"), watch[api.ControllerPublishRequest](n, "Controller.Publish")
	v := spec("v")
	v.MountOptions = &api.MountOptions{FSType: "xfs", MountFlags: []string{"noatime"}}
	r.register(v)
	if o := checked.only(t).MountOptions; o == nil || o.FSType != "xfs" || len(o.MountFlags) != 1 {
		t.Errorf("validated with %+v", o)
	}
	r.mustPlace(alloc("a1", "n1", "v", writer, func(a *api.Allocation) {
		a.Job.TaskGroups[0].Volumes["data"].MountOptions = &api.MountOptions{MountFlags: []string{"ro"}}
	}))
	r.mustClaim("v", "a1", "n1")
	if o := on.only(t).MountOptions; o == nil || o.FSType != "xfs" || len(o.MountFlags) != 1 || o.MountFlags[0] != "ro" {
		t.Errorf("attached with %+v", o)
	}
}

// P5: what the driver answered to the attachment is kept, so that a node that starts anew and a server
// that takes over need no second call.
func TestP5PublishContextIsKept(t *testing.T) {
	r := newRig(t)
	n := r.node("n1")
	r.register(spec("v"))
	r.mustPlace(alloc("a1", "n1", "v", writer))
	if got := r.mustClaim("v", "a1", "n1").PublishContext["device"]; got != "/dev/ext-v" {
		t.Fatalf("context is %q", got)
	}
	r.halt()
	r.start()
	if got := r.mustClaim("v", "a1", "n1").PublishContext["device"]; got != "/dev/ext-v" {
		t.Errorf("context is %q after the restart", got)
	}
	if c := n.count("Controller.Publish"); c != 1 {
		t.Errorf("attached %d times", c)
	}
}

// P7: a stop that the servers and the node both tell of is one detachment.
func TestP7OneDetachmentPerStop(t *testing.T) {
	r := newRig(t)
	n := r.node("n1")
	r.register(spec("v"))
	r.mustPlace(alloc("a1", "n1", "v", writer))
	r.mustClaim("v", "a1", "n1")
	r.ends("a1", api.AllocClientStatusComplete)
	var reports sync.WaitGroup
	for range 4 {
		reports.Go(func() {
			if err := r.report("v", "a1", "n1", ""); err != nil {
				t.Error(err)
			}
		})
	}
	if err := r.room.Settle(r.ctx()); err != nil {
		t.Fatal(err)
	}
	reports.Wait()
	r.free("v")
	if c := n.count("Controller.Unpublish"); c != 1 {
		t.Errorf("detached %d times", c)
	}
	// A later attachment is not touched by anything left of the earlier one.
	r.mustPlace(alloc("a2", "n1", "v", writer))
	r.mustClaim("v", "a2", "n1")
	if err := r.report("v", "a1", "n1", ""); err != nil {
		t.Fatal(err)
	}
	if s := r.claimState("v", "a2"); s != api.ClaimReady || n.count("Controller.Unpublish") != 1 {
		t.Errorf("claim is %q after %d detachments", s, n.count("Controller.Unpublish"))
	}
}

// P6: a plugin that expands only volumes out of use is not asked about one in use, and the caller is
// told who uses it.
func TestP6OfflineExpansionWaitsForUsers(t *testing.T) {
	r := newRig(t)
	n := r.node("n1", func(n *api.Node) { n.CSIControllerPlugins["p"].ControllerInfo.OfflineExpansion = true })
	if err := r.create(made("v")); err != nil {
		t.Fatal(err)
	}
	r.mustPlace(alloc("a1", "n1", "v", writer))
	r.mustClaim("v", "a1", "n1")
	bigger := made("v")
	bigger.RequestedCapacityMin = 300
	err := r.create(bigger)
	if !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "a1") || n.count("Controller.Expand") != 0 {
		t.Fatalf("after %d expansions of a volume in use: %v", n.count("Controller.Expand"), err)
	}
	if v := r.get("v"); v.State != api.VolumeAvailable {
		t.Errorf("the volume is %s", v.State)
	}
	r.ends("a1", api.AllocClientStatusComplete)
	r.unmounted("v", "a1", "n1")
	r.free("v")
	if err := r.create(bigger); err != nil || n.count("Controller.Expand") != 1 {
		t.Fatalf("after %d expansions of a volume out of use: %v", n.count("Controller.Expand"), err)
	}
}

// P6: users of the volume that come while it grows wait until it has grown.
func TestP6AttachmentWaitsForOfflineExpansion(t *testing.T) {
	r := newRig(t)
	n := r.node("n1", func(n *api.Node) { n.CSIControllerPlugins["p"].ControllerInfo.OfflineExpansion = true })
	if err := r.create(made("v")); err != nil {
		t.Fatal(err)
	}
	grow := make(chan struct{})
	n.on("Controller.Expand", func(ctx context.Context, _ any) error {
		select {
		case <-grow:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	bigger := made("v")
	bigger.RequestedCapacityMin = 300
	done := make(chan error, 1)
	go func() { done <- r.create(bigger) }()
	n.await(t, "Controller.Expand")
	r.mustPlace(alloc("a1", "n1", "v", writer))
	if c := n.count("Controller.Publish"); c != 0 {
		t.Errorf("attached %d times while it grows", c)
	}
	close(grow)
	if err := <-done; err != nil {
		t.Error(err)
	}
	r.mustClaim("v", "a1", "n1")
}
