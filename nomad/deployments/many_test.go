package deployments_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/deployments"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Ids may repeat; the work in Apply, on every server, must not grow with the square of them.
func TestHealthOfManyAllocationsIsSetSoon(t *testing.T) {
	s := state.New()
	a, b := "aaaaaaaa-0000-0000-0000-000000000001", "bbbbbbbb-0000-0000-0000-000000000002"
	tx := s.Write(10, time.Now())
	tx.PutDeployment(&api.Deployment{ID: "d", Namespace: "default", JobID: "j", Status: api.DeploymentStatusRunning, TaskGroups: map[string]*api.DeploymentState{"g": {}}})
	for _, id := range []string{a, b} {
		tx.PutAlloc(&api.Allocation{ID: id, Namespace: "default", JobID: "j", TaskGroup: "g", NodeID: "n", DeploymentID: "d"})
	}
	tx.Commit()
	c := &deployments.SetHealth{DeploymentID: "d", Healthy: slices.Repeat([]string{a}, 40_000), Unhealthy: append(slices.Repeat([]string{b}, 40_000), a), EvalID: "e"}
	tx = s.Write(11, time.Now())
	defer tx.Abort()
	began := time.Now()
	if _, err := c.Apply(tx); err == nil || !strings.Contains(err.Error(), "can't be healthy and unhealthy") {
		t.Error(err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("took %v", took)
	}
}
