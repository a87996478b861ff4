package volumes_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// forgets makes the records of allocations unreadable that the node does not know any more.
func (v *virtual) forgets(ids ...string) (at map[string]string) {
	v.t.Helper()
	at = map[string]string{}
	for _, id := range ids {
		at[id] = v.up(workload(id))["a"].Source
	}
	v.stop()
	for _, id := range ids {
		v.journal.spoil("row/" + id)
	}
	v.start()
	v.knows()
	return at
}

// detachNameless asks for what is mounted for an allocation that neither servers nor node know.
func (v *virtual) detachNameless(id string) error {
	v.t.Helper()
	_, err := serve(v.t, v.svc, v.t.Context(), wire.NodeVolumeDetach, &api.NodeVolumeDetachRequest{AllocID: id, PluginID: "p"})
	return err
}

// The node may have forgotten an allocation that the servers have on it, and whose tasks run.
func TestMountOfAnAllocationThatTheServersListIsNotNameless(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		at := v.forgets("gone", "w")
		if err := v.detachNameless("gone"); !errors.Is(err, fault.Unavailable) || v.on(at["gone"]) == nil || v.on(at["w"]) == nil {
			t.Errorf("before the servers have said which allocations there are: %v", err)
		}
		v.svc.Listed([]*api.Allocation{workload("w"), nil})
		if err := v.detachNameless("gone"); err != nil || v.on(at["gone"]) != nil {
			t.Errorf("it is mounted still: %v", err)
		}
		if v.on(at["w"]) == nil {
			t.Error("an allocation that the servers list has lost its mount")
		}
	})
}

// What is detached without a name may hang, and an allocation be taken up meanwhile.
func TestMountThatIsTakenUpWhileOthersAreDetachedStays(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		at := v.forgets("gone", "w")
		v.told()
		v.host.Hang(at["gone"])
		v.host.Aborting(func(m *mounts.Entry) {
			if m.Point == at["gone"] {
				v.up(workload("w"))
			}
		})
		goOn := v.host.HangUnmount(at["gone"])
		done := make(chan error, 1)
		go func() { done <- v.detachNameless("gone") }()
		synctest.Wait()
		time.Sleep(10 * time.Second)
		v.up(workload("w"))
		goOn()
		v.host.Wake()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if v.on(at["gone"]) != nil || v.on(at["w"]) == nil {
			t.Errorf("at the targets are %v and %v", v.on(at["gone"]), v.on(at["w"]))
		}
	})
}

// A mount is not taken up that is being taken away.
func TestMountThatIsBeingDetachedIsNotTakenUp(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		at := v.forgets("w")["w"]
		v.told()
		v.driver.Storage().Excuse("fake-node", true) // it keeps a book of what it has published
		v.driver.Script(fake.Fault{RPC: "NodePublishVolume", Times: 1, Code: codes.Unavailable})
		v.host.Hang(at)
		done := make(chan error, 1)
		go func() { done <- v.detachNameless("w") }()
		synctest.Wait() // it asks whether the mount lives
		up := make(chan error, 1)
		go func() { _, err := v.svc.Up(t.Context(), workload("w")); up <- err }()
		synctest.Wait()
		v.host.Wake()
		if err := <-done; !errors.Is(err, fault.Conflict) {
			t.Errorf("the detach of an allocation that is taken up: %v", err)
		}
		if err := <-up; err != nil {
			t.Error(err)
		}
		if v.on(at) == nil || v.svc.Mounted("w") != nil {
			t.Error("an allocation that was taken up has no mount")
		}
	})
}
