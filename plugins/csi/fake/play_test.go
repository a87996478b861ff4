package fake_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/csi"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts/mountstest"
)

// host is a caller of a driver in memory.
type host struct {
	*csi.Client
	t    *testing.T
	node string
}

func call(t *testing.T, d *fake.Driver, node string) host {
	t.Helper()
	cl, err := csi.New(csi.Config{Socket: node, Connect: func(_ string, h stats.Handler) grpc.ClientConnInterface { return d.Conn(h) }})
	if err != nil {
		t.Fatal(err)
	}
	return host{cl, t, node}
}

// cluster is a storage with a controller and two nodes.
func cluster(t *testing.T, c fake.Config) (s *fake.Storage, controller, n1, n2 host) {
	t.Helper()
	s = fake.NewStorage()
	s.Add("v")
	with := func(node string) host {
		c := c
		c.Storage, c.NodeID, c.Host = s, node, mountstest.New(node)
		return call(t, fake.New(c), node)
	}
	return s, with("c"), with("n1"), with("n2")
}

func (h host) attach(node string, mode api.AccessMode) error {
	_, err := h.ControllerPublish(h.t.Context(), &api.ControllerPublishRequest{
		ExternalID: "v", ProviderNodeID: node, AccessMode: mode, AttachmentMode: api.AttachmentFileSystem,
	})
	return err
}

func (h host) detach(node string) error {
	return h.ControllerUnpublish(h.t.Context(), &api.ControllerUnpublishRequest{ExternalID: "v", ProviderNodeID: node})
}

func (h host) volume(mode api.AccessMode) *csi.NodeVolume {
	return &csi.NodeVolume{
		ExternalID: "v", StagingPath: "/s", TargetPath: "/t", AccessMode: mode, AttachmentMode: api.AttachmentFileSystem,
		PublishContext: map[string]string{"attached": h.node},
	}
}

func (h host) expand() error {
	_, err := h.ControllerExpand(h.t.Context(), &api.ControllerExpandRequest{ExternalID: "v", CapacityMinBytes: 2 << 20})
	return err
}

func (h host) snapshot() error {
	_, err := h.CreateSnapshot(h.t.Context(), &api.ControllerSnapshotRequest{ExternalID: "v", Name: "s"})
	return err
}

func (h host) remove() error {
	return h.DeleteVolume(h.t.Context(), &api.ControllerDeleteRequest{ExternalID: "v"})
}

func TestOverlapIsSeenOverAllNodesAndControllers(t *testing.T) {
	const one, many = api.AccessSingleNodeWriter, api.AccessMultiNodeMultiWriter
	for name, tt := range map[string]struct {
		first, second func(c1, c2, n1, n2 host) error
		violation     bool
	}{
		"two nodes attached by two controllers": {
			func(c1, _, _, _ host) error { return c1.attach("n1", many) },
			func(_, c2, _, _ host) error { return c2.attach("n2", many) }, true,
		},
		"attach and detach of two nodes": {
			func(c1, _, _, _ host) error { return c1.attach("n1", many) },
			func(_, c2, _, _ host) error { return c2.detach("n2") }, true,
		},
		"expand and delete": {
			func(c1, _, _, _ host) error { return c1.expand() },
			func(_, c2, _, _ host) error { return c2.remove() }, true,
		},
		"snapshot and expand": {
			func(c1, _, _, _ host) error { return c1.snapshot() },
			func(_, c2, _, _ host) error { return c2.expand() }, true,
		},
		"stage and delete": {
			func(_, _, n1, _ host) error { return n1.NodeStage(n1.t.Context(), n1.volume(one)) },
			func(_, c2, _, _ host) error { return c2.remove() }, true,
		},
		"stage and detach of a node": {
			func(_, _, n1, _ host) error { return n1.NodeStage(n1.t.Context(), n1.volume(one)) },
			func(_, c2, _, _ host) error { return c2.detach("n1") }, true,
		},
		"stage of a volume for one node on two": {
			func(_, _, n1, _ host) error { return n1.NodeStage(n1.t.Context(), n1.volume(one)) },
			func(_, _, _, n2 host) error { return n2.NodeStage(n2.t.Context(), n2.volume(one)) }, true,
		},
		"stage of a volume for many nodes on two": {
			func(_, _, n1, _ host) error { return n1.NodeStage(n1.t.Context(), n1.volume(many)) },
			func(_, _, _, n2 host) error { return n2.NodeStage(n2.t.Context(), n2.volume(many)) }, false,
		},
		"unstage by a node that came back": {
			func(_, _, n1, _ host) error { return n1.NodeUnstage(n1.t.Context(), "v", "/s") },
			func(_, _, _, n2 host) error { return n2.NodeStage(n2.t.Context(), n2.volume(one)) }, false,
		},
		"expand while a node stages": {
			func(_, _, n1, _ host) error { return n1.NodeStage(n1.t.Context(), n1.volume(one)) },
			func(_, c2, _, _ host) error { return c2.expand() }, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow := fake.Config{Attach: true, Pace: func(fake.Call) time.Duration { return time.Second }}
				s, c1, n1, n2 := cluster(t, slow)
				slow.Storage, slow.NodeID = s, "c2"
				c2 := call(t, fake.New(slow), "c2")
				for _, h := range []host{c1, c2, n1, n2} { // capabilities are learned first
					if _, err := h.Fingerprint(t.Context(), csi.Services{Controller: true, Node: true}); err != nil {
						t.Fatal(err)
					}
				}
				var both sync.WaitGroup
				both.Go(func() { _ = tt.first(c1, c2, n1, n2) })
				both.Go(func() { time.Sleep(time.Millisecond); _ = tt.second(c1, c2, n1, n2) })
				both.Wait()
				if n := len(s.Overlaps()); n != 1 {
					t.Errorf("%d overlaps: %v", n, s.Overlaps())
				}
				isOverlap := func(v string) bool { return strings.HasPrefix(v, "overlap: ") }
				if got := slices.ContainsFunc(s.Violations(), isOverlap); got != tt.violation {
					t.Errorf("violations %q", s.Violations())
				}
			})
		})
	}
}

func TestExcusedNodesViolateNothing(t *testing.T) {
	s, c, n1, n2 := cluster(t, fake.Config{Attach: true})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(c.attach("n1", api.AccessSingleNodeWriter))
	must(n1.NodeStage(t.Context(), n1.volume(api.AccessSingleNodeWriter)))
	s.Excuse("n1", true)
	must(c.detach("n1"))
	must(c.attach("n2", api.AccessSingleNodeWriter))
	must(n2.NodeStage(t.Context(), n2.volume(api.AccessSingleNodeWriter)))
	if v := s.Violations(); len(v) > 0 {
		t.Error(v)
	}
	s.Excuse("n1", false)
	_ = n1.NodePublish(t.Context(), n1.volume(api.AccessSingleNodeWriter))
	if v := s.Violations(); len(v) != 1 {
		t.Errorf("violations %q", v)
	}
}

func TestSecondWriterOfASingleWriterVolumeIsSeen(t *testing.T) {
	s, c, n1, n2 := cluster(t, fake.Config{Attach: true})
	for _, h := range []host{n1, n2} {
		v := h.volume(api.AccessMultiNodeSingleWriter)
		if err := errors.Join(c.attach(h.node, v.AccessMode), h.NodeStage(t.Context(), v), h.NodePublish(t.Context(), v)); err != nil {
			t.Fatal(err)
		}
	}
	if v := s.Violations(); len(v) != 1 || !strings.Contains(v[0], "two writers") {
		t.Errorf("violations %q", v)
	}
}

func TestNonsenseIsNeverSuccess(t *testing.T) {
	d := fake.New(fake.Config{NodeID: "n9", Attach: true, GetVolume: true, GetSnapshot: true, Host: mountstest.New("n9")})
	d.Storage().Add("v")
	h := call(t, d, "n9")
	verify := func(snapshot bool) error {
		_, err := h.Verify(t.Context(), &api.ControllerVerifyRequest{ExternalID: "v", Snapshot: snapshot})
		return err
	}
	for rpc, try := range map[string]func() error{
		"CreateVolume": func() error {
			_, err := h.CreateVolume(t.Context(), &api.ControllerCreateRequest{Name: "a", Capabilities: []*api.VolumeCapability{
				{AccessMode: api.AccessSingleNodeWriter, AttachmentMode: api.AttachmentFileSystem},
			}})
			return err
		},
		"ControllerPublishVolume": func() error { return h.attach("n9", api.AccessSingleNodeWriter) },
		"ControllerExpandVolume":  h.expand,
		"CreateSnapshot":          h.snapshot,
		"ControllerGetVolume":     func() error { return verify(false) },
		"GetSnapshot":             func() error { return verify(true) },
		"NodeExpandVolume": func() error {
			_, err := h.NodeExpand(t.Context(), h.volume(api.AccessSingleNodeWriter), 1)
			return err
		},
		"NodeGetInfo": func() error {
			_, err := h.Fingerprint(t.Context(), csi.Services{Node: true})
			return err
		},
		"GetPluginInfo": func() error { _, err := h.PluginInfo(t.Context()); return err },
		"ValidateVolumeCapabilities": func() error {
			_, err := h.Validate(t.Context(), &api.ControllerValidateRequest{ExternalID: "v", Capabilities: []*api.VolumeCapability{
				{AccessMode: api.AccessSingleNodeWriter, AttachmentMode: api.AttachmentFileSystem},
			}})
			return err
		},
	} {
		replies := fake.Nonsense(rpc)
		if len(replies) == 0 {
			t.Errorf("no nonsense for %s", rpc)
		}
		for _, reply := range replies {
			d.Heal()
			d.Script(fake.Fault{RPC: rpc, Reply: reply})
			if err := try(); err == nil {
				t.Errorf("%s takes %.80v for an answer", rpc, reply)
			} else if len(err.Error()) > 1000 {
				t.Errorf("%s: an error of %d bytes", rpc, len(err.Error()))
			}
		}
		d.Heal()
	}
}
