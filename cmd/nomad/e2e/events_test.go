package e2e

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

func ptr[T any](v T) *T { return &v }

// volume asks for a volume and fails the test when there is none.
func volume(t *testing.T, a *kit.Agent, id string) *api.CSIVolume {
	t.Helper()
	v, _, err := a.API.CSIVolumes().Info(id, nil)
	if err != nil {
		t.Fatalf("volume %s: %v", id, err)
	}
	return v
}

// holders are the ids of the allocations that hold the volume, sorted.
func holders(v *api.CSIVolume) []string {
	var ids []string
	for id := range v.WriteAllocs {
		ids = append(ids, id)
	}
	for id := range v.ReadAllocs {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// claims are the claims and attachments of a volume, as the project's own fields tell them.
type claims struct {
	Claims      []struct{ AllocID, State, Predecessor, LastError string }
	Attachments []struct{ NodeID, State, LastError string }
}

func claimsOf(t *testing.T, a *kit.Agent, id string) claims {
	t.Helper()
	var c claims
	if _, err := a.API.Raw().Query("/v1/volume/csi/"+id, &c, nil); err != nil {
		t.Fatalf("volume %s: %v", id, err)
	}
	return c
}

// noViolation fails when the driver noted that somebody broke the rules of CSI.
func noViolation(t *testing.T, a *kit.Agent) {
	t.Helper()
	noViolationIn(t, a.Dir+"/hp")
}

func noViolationIn(t *testing.T, storage string) {
	t.Helper()
	body, err := os.ReadFile(storage + "/violations.log")
	if err != nil && !os.IsNotExist(err) || len(body) > 0 {
		t.Errorf("violations: %v\n%s", err, body)
	}
}

// unmounted waits until no volume is mounted.
func unmounted(t *testing.T, a *kit.Agent) {
	t.Helper()
	a.Until(20*time.Second, "the mounts to go", func() error { return none(a.Mounts(), "/csi/node/", "/csi/monolith/") })
}

// ended waits until the job has n allocations with the client status.
func ended(t *testing.T, a *kit.Agent, job, status string, n int) {
	t.Helper()
	a.Until(30*time.Second, fmt.Sprintf("%d %s of %s", n, status, job), func() error {
		if found := len(a.Allocs(job, status)); found != n {
			return fmt.Errorf("%d are", found)
		}
		return nil
	})
}
