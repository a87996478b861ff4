package allocs

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// withHealth takes the node's word on the health of next. The first word stands, be it the node's or a user's,
// with one exception: an allocation that failed while its deployment goes on is not healthy, whatever was said
// before. A word that was meant for another deployment does not count.
func withHealth(tx *state.Txn, next, report *api.Allocation) {
	status := api.AllocDeploymentStatus{}
	if next.DeploymentStatus != nil {
		status = *next.DeploymentStatus
	}
	said := report.DeploymentStatus
	switch {
	case failedOf(tx, next) && (status.Healthy == nil || *status.Healthy):
		healthy := false
		status.Healthy, status.Timestamp = &healthy, tx.Now()
	case said != nil && said.Healthy != nil && status.Healthy == nil && report.DeploymentID == next.DeploymentID:
		status.Healthy, status.Timestamp = said.Healthy, said.Timestamp
	default:
		return
	}
	status.ModifyIndex = tx.Index()
	next.DeploymentStatus = &status
}

// failedOf reports whether the allocation failed under a deployment that is not over.
func failedOf(tx *state.Txn, a *api.Allocation) bool {
	if a.DeploymentID == "" || a.ClientStatus != api.AllocClientStatusFailed || a.ServerTerminal() {
		return false
	}
	d := tx.Deployment(a.DeploymentID)
	return d != nil && d.Active()
}
