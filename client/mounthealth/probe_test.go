package mounthealth_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/client/mounthealth"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts/mountstest"
)

// mounted makes n mounts and returns them.
func mounted(t *testing.T, h *mountstest.Host, n int) []*mounts.Entry {
	t.Helper()
	var out []*mounts.Entry
	for i := range n {
		path := fmt.Sprintf("/m/%d", i)
		if err := h.MakeDir(path); err != nil {
			t.Fatal(err)
		}
		if err := h.Mount("8:1", "ext4", path, mounts.Flags{}); err != nil {
			t.Fatal(err)
		}
		e, _ := h.At(path)
		out = append(out, e)
	}
	return out
}

// However many mounts hang, one that is healthy is found to be: hung ones keep none of the places.
func TestHungMountsTakeNoPlacesFromOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := mountstest.New("n")
		all := mounted(t, h, 201)
		p := mounthealth.NewProber(h)
		for _, e := range all[:200] {
			h.Hang(e.Point)
		}
		healthy := all[200]
		for round := range 3 {
			var asking sync.WaitGroup
			for _, e := range all[:200] {
				asking.Go(func() { p.Look(t.Context(), e) })
			}
			begin := time.Now()
			if got, why := p.Check(t.Context(), healthy); got != mounthealth.Healthy || time.Since(begin) > 0 {
				t.Errorf("round %d: a healthy mount is %v after %s: %s", round, got, time.Since(begin), why)
			}
			asking.Wait()
		}
		if got, _ := p.Look(t.Context(), healthy); got != mounthealth.Healthy {
			t.Errorf("a sweep finds the healthy mount to be %v", got)
		}
		h.Wake()
	})
}

// Who must know waits for a place; not even then is a healthy mount taken for another.
func TestCheckWaitsForAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := mountstest.New("n")
		all := mounted(t, h, 65)
		p := mounthealth.NewProber(h)
		var asking sync.WaitGroup
		for _, e := range all[:64] {
			h.Hang(e.Point)
			asking.Go(func() {
				if got, _ := p.Check(t.Context(), e); got != mounthealth.Unresponsive {
					t.Errorf("a hung mount is %v", got)
				}
			})
		}
		synctest.Wait()
		begin := time.Now()
		if got, _ := p.Check(t.Context(), all[64]); got != mounthealth.Healthy {
			t.Errorf("a healthy mount is %v", got)
		}
		if took := time.Since(begin); took > 15*time.Second {
			t.Errorf("it took %s", took)
		}
		asking.Wait()
		h.Wake()
	})
}

// refusing is a host whose statfs is not allowed.
type refusing struct {
	*mountstest.Host
	err error
}

func (r refusing) Statfs(string) error { return r.err }

func TestOnlyErrorsThatANewMountEndsAreFailures(t *testing.T) {
	for err, want := range map[error]mounthealth.Health{
		unix.EACCES: mounthealth.Healthy, unix.EPERM: mounthealth.Healthy, unix.ENOTCONN: mounthealth.Failed,
		unix.ESTALE: mounthealth.Failed, unix.EIO: mounthealth.Failed, unix.EHOSTDOWN: mounthealth.Failed,
	} {
		h := mountstest.New("n")
		p := mounthealth.NewProber(refusing{h, err})
		if got, _ := p.Check(t.Context(), mounted(t, h, 1)[0]); got != want {
			t.Errorf("a mount that answers %v is %v", err, got)
		}
	}
}
