package reconciler_test

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/volumes/reconciler"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// vault is a provider that takes one secret.
type vault struct {
	mu    sync.Mutex
	valid string
	given []string
}

func (v *vault) rotate(valid string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.valid, v.given = valid, nil
}

func (v *vault) guard(n *volumestest.Node, methods ...string) {
	for _, method := range methods {
		n.On(method, func(_ context.Context, req any) error {
			var secrets map[string]string
			switch q := req.(type) {
			case *api.ControllerPublishRequest:
				secrets = q.Secrets
			case *api.ControllerUnpublishRequest:
				secrets = q.Secrets
			case *api.ControllerSnapshotRequest:
				secrets = q.Secrets
			}
			v.mu.Lock()
			defer v.mu.Unlock()
			v.given = append(v.given, secrets["key"])
			if secrets["key"] != v.valid {
				return volumestest.Says(method, codes.Unauthenticated, "bad credentials")
			}
			return nil
		})
	}
}

func keyed(id, key string) *api.VolumeSpec {
	v := volumestest.Spec(id)
	v.Secrets = map[string]string{"key": key}
	return v
}

// patient retries by itself only after longer than a test lasts.
func patient(l *reconciler.Limits) { l.RetryMin, l.RetryMax = time.Hour, time.Hour }

func TestCorrectedSecretEndsAStuckDetach(t *testing.T) {
	t.Parallel()
	r := newRig(t, patient)
	n := r.Node("n1")
	r.Node("n2", volumestest.NodeOnly)
	p := &vault{valid: "right"}
	p.guard(n, "Controller.Publish", "Controller.Unpublish")
	r.Register(keyed("v", "wrong"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	if _, err := r.Claim("v", "a1", "n1"); err == nil || !strings.Contains(err.Error(), "bad credentials") {
		t.Fatalf("claim: %v", err)
	}
	r.Ends("a1", api.AllocClientStatusFailed)
	r.stuck("v", "n1", "detach from node n1")
	r.Register(keyed("v", "right"))
	r.Free("v")
	r.MustPlace(volumestest.Alloc("a2", "n2", "v", writer, volumestest.Of("other")))
	r.MustClaim("v", "a2", "n2")
}

// The secret at the time of the call is used, not that of the attachment's beginning.
func TestDetachUsesTheSecretOfNow(t *testing.T) {
	t.Parallel()
	r := newRig(t, patient)
	n := r.Node("n1")
	p := &vault{valid: "old"}
	p.guard(n, "Controller.Publish", "Controller.Unpublish")
	r.Register(keyed("v", "old"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	p.rotate("new")
	r.Register(keyed("v", "new"))
	r.Ends("a1", api.AllocClientStatusComplete)
	r.Unmounted("v", "a1", "n1")
	r.Free("v")
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.given) != 1 || p.given[0] != "new" {
		t.Errorf("secrets given are %q", p.given)
	}
}

func TestDetachUsesTheSecretOfAnySpec(t *testing.T) {
	t.Parallel()
	r := newRig(t, patient)
	n := r.Node("n1")
	p := &vault{valid: "right"}
	r.Register(keyed("v", "wrong"))
	twin := keyed("w", "right")
	twin.ExternalID = "ext-v"
	r.Register(twin)
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	p.guard(n, "Controller.Unpublish")
	r.Ends("a1", api.AllocClientStatusComplete)
	r.Unmounted("v", "a1", "n1")
	r.Free("v")
}

// Drivers quote their command lines.
func TestSecretsAreInNoError(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-secret"
	r := newRig(t)
	var log bytes.Buffer
	r.Log(&log)
	n := r.Node("n1")
	for _, method := range []string{"Controller.Publish", "Controller.Unpublish", "Controller.Snapshot", "Controller.Expand", "NodeVolume.Detach"} {
		n.Says(method, codes.Internal, "exit 1: mount -t cifs -o password="+secret)
	}
	v := keyed("v", secret)
	v.RequestedCapacityMin = 100
	r.Register(v)
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	_, err := r.Claim("v", "a1", "n1")
	if err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "password=") {
		t.Errorf("claim: %v", err)
	}
	r.Ends("a1", api.AllocClientStatusFailed)
	r.stuck("v", "n1", "detach from node n1")
	if _, err := r.Snapshot("s"); err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("snapshot: %v", err)
	}
	larger := keyed("v", secret)
	larger.RequestedCapacityMin = 200
	if err := r.Create(larger); err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("expansion: %v", err)
	}
	r.Halt()
	var dump bytes.Buffer
	if err := r.State.Read().DumpRedacted(&dump); err != nil || strings.Contains(dump.String(), secret) {
		t.Errorf("a redacted snapshot has the secret: %v", err)
	}
	if strings.Contains(log.String(), secret) {
		t.Errorf("the log has the secret: %s", log.String())
	}
}
