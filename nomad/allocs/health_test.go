package allocs_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// deploy makes a deployment of the placed allocations.
func deploy(s *state.Store, status string, ids ...string) {
	tx := s.Write(s.Read().Index()+1, time.Now())
	tx.PutDeployment(&api.Deployment{
		ID: "d", Namespace: "default", JobID: "web", Status: status,
		TaskGroups: map[string]*api.DeploymentState{"g": {DesiredTotal: len(ids), ProgressDeadline: time.Minute}},
	})
	for _, id := range ids {
		a := *tx.Alloc(id)
		a.DeploymentID = "d"
		a.DeploymentStatus = &api.AllocDeploymentStatus{Canary: true}
		tx.PutAlloc(&a)
	}
	tx.Commit()
}

func TestHealthOfReports(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	for name, c := range map[string]struct {
		deployment, of string // the deployment's status, and the deployment that the node means
		known          *bool
		status         string
		said           *bool
		want           *bool
		healthy        int
		unhealthy      int
	}{
		"first word":                  {api.DeploymentStatusRunning, "d", nil, api.AllocClientStatusRunning, &yes, &yes, 1, 0},
		"no word":                     {api.DeploymentStatusRunning, "d", nil, api.AllocClientStatusRunning, nil, nil, 0, 0},
		"second word":                 {api.DeploymentStatusRunning, "d", &yes, api.AllocClientStatusRunning, &no, &yes, 1, 0},
		"another deployment":          {api.DeploymentStatusRunning, "older", nil, api.AllocClientStatusRunning, &yes, nil, 0, 0},
		"failed after healthy":        {api.DeploymentStatusRunning, "d", &yes, api.AllocClientStatusFailed, &yes, &no, 0, 1},
		"failed without a word":       {api.DeploymentStatusPaused, "d", nil, api.AllocClientStatusFailed, nil, &no, 0, 1},
		"failed after the deployment": {api.DeploymentStatusSuccessful, "d", &yes, api.AllocClientStatusFailed, &yes, &yes, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, s, _ := open(t)
			place(s, "a1", "n1")
			deploy(s, c.deployment, "a1")
			send := func(status, of string, healthy *bool) {
				rep := report("a1", status)
				rep.DeploymentID, rep.DeploymentStatus = of, &api.AllocDeploymentStatus{Healthy: healthy, Timestamp: time.Now()}
				if _, err := r.Update(t.Context(), &api.AllocUpdateRequest{NodeID: "n1", Allocs: []*api.Allocation{rep}}); err != nil {
					t.Fatal(err)
				}
			}
			if c.known != nil {
				send(api.AllocClientStatusRunning, "d", c.known)
			}
			send(c.status, c.of, c.said)
			got := s.Read().Alloc("a1").DeploymentStatus
			if got == nil || !got.Canary || (got.Healthy == nil) != (c.want == nil) || c.want != nil && *got.Healthy != *c.want {
				t.Errorf("status %+v, want healthy %v", got, c.want)
			}
			g := s.Read().Deployment("d").TaskGroups["g"]
			if g.HealthyAllocs != c.healthy || g.UnhealthyAllocs != c.unhealthy {
				t.Errorf("counters %+v, want %d healthy and %d unhealthy", g, c.healthy, c.unhealthy)
			}
		})
	}
}
