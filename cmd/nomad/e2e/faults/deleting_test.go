package faults

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/faults/script"
)

// refused fails unless a request about a volume was refused with the words.
func (b *bed) refused(what, answer string, code int, words ...string) {
	b.t.Helper()
	if code/100 != 4 {
		b.t.Errorf("%s: %d %s", what, code, answer)
	}
	for _, w := range words {
		if !strings.Contains(answer, w) {
			b.t.Errorf("%s: the answer does not name %q: %s", what, w, answer)
		}
	}
}

// filled is a volume with data that nobody uses.
func (b *bed) filled(id string) {
	b.t.Helper()
	b.volume(id, nil)
	b.Register(writer("fill", id))
	b.beats(id, b.Running("fill", 1).ID)
	b.Stop("fill", true)
	b.Free(id)
}

func TestVolumeWhoseDeleteIsPendingIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	for name, slow := range map[string]script.Fault{
		"unavailable": {RPC: "DeleteVolume", Code: unavailable, Text: "the array reboots"},
		"slow":        {RPC: "DeleteVolume", Delay: 6 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, 2, false) // a driver that attaches would refuse by itself
			b.filled("v1")
			external := b.volumes["v1"]
			b.faults(slow)
			ended := make(chan error, 1)
			go func() { ended <- b.tryDelete("v1") }()
			b.Until(10*time.Second, "the driver to be asked", func() error {
				if len(b.calls("v1", "DeleteVolume")) == 0 {
					return fmt.Errorf("no call")
				}
				return nil
			})

			answer, code := b.register("v2", external, nil)
			b.refused("another volume of the same at the driver", answer, code, "v1")
			if code == http.StatusOK {
				b.volumes["v2"] = external
				b.Register(writer("twin", "v2"))
			}
			answer, code = b.register("v1", external, nil)
			b.refused("the same volume", answer, code, "delet")
			if out, code := b.Run("volume", "deregister", "v1"); code == 0 {
				t.Errorf("deregistered: %s", out)
			}
			b.Register(writer("late", "v1"))
			b.blocked("late")
			if _, n := b.inUse("v1"); n > 0 {
				t.Errorf("%d claims", n)
			}

			b.faults()
			b.Until(20*time.Second, "the volume to be deleted", func() error {
				if left := b.stored(); len(left) > 0 {
					return fmt.Errorf("the driver has %q", left)
				}
				if known, _ := b.inUse("v1"); known {
					return fmt.Errorf("the servers have it")
				}
				return nil
			})
			if err := <-ended; err != nil && name == "slow" {
				t.Errorf("delete: %v", err)
			}
			for _, job := range []string{"late", "twin"} {
				if n := len(b.Allocs(job, "running")); n > 0 {
					t.Errorf("%s runs", job)
				}
			}
			b.Stop("late", true)
			delete(b.volumes, "v1")
			b.clean()
			b.figure("delete pending, "+name+": register, claim, deregister", "each refused; deleted when the driver answers", "never used again, nothing lost")
		})
	}
}

// inUse tells whether the servers know a volume, and its claims.
func (b *bed) inUse(id string) (known bool, claims int) {
	v, _, err := b.API.CSIVolumes().Info(id, nil)
	if err != nil {
		return gone(err) != nil, 0
	}
	return true, len(v.ReadAllocs) + len(v.WriteAllocs)
}
