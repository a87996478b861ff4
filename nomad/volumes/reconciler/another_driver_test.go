package reconciler_test

import (
	"context"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// becomes has the instances of a node run a driver.
func (r *rig) becomes(node, driver string) {
	r.T.Helper()
	r.Change(node, func(n *api.Node) {
		for _, i := range []*api.CSIInfo{n.CSIControllerPlugins["p"], n.CSINodePlugins["p"]} {
			i.Provider, i.OwnedBy, i.Healthy, i.HealthDescription = driver, "", true, "healthy"
		}
	})
}

// instances returns the health of both instances of a node, as plugin status shows it.
func (r *rig) instances(node string) (healthy bool, reason string) {
	r.T.Helper()
	out, err := r.Service.GetPlugin(r.Context(), &api.PluginGetRequest{ID: "p"})
	if err != nil {
		r.T.Fatal(err)
	}
	c, n := out.Plugin.Controllers[node], out.Plugin.Nodes[node]
	if c.Healthy != n.Healthy || c.HealthDescription != n.HealthDescription {
		r.T.Fatalf("the controller is %+v, the node plugin %+v", c, n)
	}
	return c.Healthy, c.HealthDescription
}

// Two drivers may have different volumes by one id: while volumes of one are registered, the other gets no call.
func TestInstanceOfAnotherDriverIsUnhealthyWhileVolumesAreRegistered(t *testing.T) {
	t.Parallel()
	for _, other := range []string{"n1", "n2"} { // one of them has the first choice of calls about the volume
		t.Run(other, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, forAnAnswer)
			r.Node("n1")
			r.Node("n2")
			r.Node("n3", volumestest.NodeOnly)
			r.Register(volumestest.Spec("v"))
			r.becomes(other, "another")
			if healthy, why := r.instances(other); healthy || !strings.Contains(why, `plugin id "p" belongs to driver "prov"`) || !strings.Contains(why, `driver "another"`) {
				t.Errorf("healthy %v: %s", healthy, why)
			}
			if why := claim.Unserved(r.State.Read().Node(other), "p"); why == "" {
				t.Error("a claim may be placed on its node")
			}
			before := len(r.Nodes.Of(other).Calls())
			r.MustPlace(volumestest.Alloc("a1", "n3", "v", writer))
			r.MustClaim("v", "a1", "n3")
			if err := r.Create(volumestest.Made("w")); err != nil {
				t.Error(err)
			}
			r.Ends("a1", api.AllocClientStatusComplete)
			r.Unmounted("v", "a1", "n3")
			r.Free("v")
			if calls := r.Nodes.Of(other).Calls()[before:]; len(calls) > 0 {
				t.Errorf("the other driver is called: %v", calls)
			}
			if err := r.Delete("v"); err != nil {
				t.Error(err)
			}
			if healthy, _ := r.instances(other); healthy {
				t.Error("it is healthy while a volume is left")
			}
			if err := r.Delete("w"); err != nil {
				t.Error(err)
			}
			if healthy, why := r.instances(other); !healthy || why != "healthy" {
				t.Errorf("it is not healthy after the last volume: %s", why)
			}
		})
	}
}

// While only another driver runs, nothing is done with the volumes; the owner continues when it runs again.
func TestNothingIsDoneWhileOnlyAnotherDriverRuns(t *testing.T) {
	t.Parallel()
	r := newRig(t, forAnAnswer)
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"))
	r.becomes("n1", "another")
	before := len(n.Calls())
	_, err := r.Service.Register(r.Context(), &api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{volumestest.Spec("w")}})
	wants(t, err, fault.Unavailable, "no instance of CSI plugin", "nomad plugin status p")
	wants(t, r.Create(volumestest.Made("x")), fault.Unavailable, `belongs to driver "prov"`, `runs driver "another"`)
	_, err = r.Snapshot("s")
	wants(t, err, fault.Unavailable, `belongs to driver "prov"`)
	larger := volumestest.Spec("v")
	larger.RequestedCapacityMin = 1000
	_, err = r.Service.Register(r.Context(), &api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{larger}})
	wants(t, err, fault.Unavailable, `belongs to driver "prov"`)
	if calls := n.Calls()[before:]; len(calls) > 0 {
		t.Errorf("the other driver is called: %v", calls)
	}
	r.becomes("n1", "prov")
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
}

// Which of two drivers would have the first volume of a plugin id is unknown.
func TestFirstVolumeNeedsInstancesOfOneDriver(t *testing.T) {
	t.Parallel()
	r := newRig(t, forAnAnswer)
	r.Node("n1")
	r.Node("n2")
	r.becomes("n2", "another")
	_, err := r.Service.Register(r.Context(), &api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{volumestest.Spec("v")}})
	wants(t, err, fault.Conflict, `drivers "another" and "prov"`)
	wants(t, r.Create(volumestest.Made("w")), fault.Conflict, `drivers "another" and "prov"`)
	if _, err := r.Service.DeleteSnapshot(r.Context(), &api.SnapshotDeleteRequest{PluginID: "p", ID: "s"}); err == nil {
		t.Error("a snapshot is deleted by one of two drivers")
	}
	r.Change("n1", func(n *api.Node) { n.Status = api.NodeStatusDown })
	r.Register(volumestest.Spec("v"))
	r.Change("n1", func(n *api.Node) { n.Status = api.NodeStatusReady })
	if healthy, why := r.instances("n1"); healthy || !strings.Contains(why, `belongs to driver "another"`) {
		t.Errorf("healthy %v: %s", healthy, why)
	}
	r.Change("n1", func(n *api.Node) {
		n.CSINodePlugins["p"].Healthy, n.CSINodePlugins["p"].HealthDescription = false, "no answer"
	})
	if err := r.Delete("v"); err != nil {
		t.Fatal(err)
	}
	if n := r.State.Read().Node("n1"); !n.CSIControllerPlugins["p"].Healthy || n.CSINodePlugins["p"].Healthy {
		t.Errorf("%+v, %+v", n.CSIControllerPlugins["p"], n.CSINodePlugins["p"])
	}
}

// A node may change its driver before the servers know: calls name the driver that they are for.
func TestCallsNameTheirDriver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n := r.Node("n1")
	meant := make(chan string, 100)
	for method, driver := range map[string]func(any) string{
		"Controller.Create":         func(q any) string { return q.(*api.ControllerCreateRequest).Provider },
		"Controller.Delete":         func(q any) string { return q.(*api.ControllerDeleteRequest).Provider },
		"Controller.Expand":         func(q any) string { return q.(*api.ControllerExpandRequest).Provider },
		"Controller.Snapshot":       func(q any) string { return q.(*api.ControllerSnapshotRequest).Provider },
		"Controller.SnapshotDelete": func(q any) string { return q.(*api.ControllerSnapshotDeleteRequest).Provider },
		"Controller.Unpublish":      func(q any) string { return q.(*api.ControllerUnpublishRequest).Provider },
	} {
		n.On(method, func(_ context.Context, q any) error {
			meant <- method + " of " + driver(q)
			return nil
		})
	}
	said := func(want string) {
		t.Helper()
		if got := <-meant; got != want {
			t.Errorf("the call is %s, want %s", got, want)
		}
	}
	if err := r.Create(volumestest.Made("v")); err != nil {
		t.Fatal(err)
	}
	said("Controller.Create of prov")
	bigger := volumestest.Made("v")
	bigger.RequestedCapacityMin = 1000
	if err := r.Create(bigger); err != nil {
		t.Fatal(err)
	}
	said("Controller.Expand of prov")
	if _, err := r.Snapshot("s"); err != nil {
		t.Fatal(err)
	}
	said("Controller.Snapshot of prov")
	if _, err := r.Service.DeleteSnapshot(r.Context(), &api.SnapshotDeleteRequest{PluginID: "p", ID: "snap"}); err != nil {
		t.Fatal(err)
	}
	said("Controller.SnapshotDelete of prov")
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	r.Ends("a1", api.AllocClientStatusComplete)
	r.Unmounted("v", "a1", "n1")
	said("Controller.Unpublish of prov")
	r.Free("v")
	if err := r.Delete("v"); err != nil {
		t.Fatal(err)
	}
	said("Controller.Delete of prov")
}
