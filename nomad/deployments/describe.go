package deployments

import "github.com/open-nomad/open-nomad/api"

// Status descriptions of deployments.
const (
	descriptionRunning   = "Deployment is running"
	descriptionManual    = "Deployment is running but requires manual promotion"
	descriptionAuto      = "Deployment is running pending automatic promotion"
	descriptionPaused    = "Deployment is paused"
	descriptionDone      = "Deployment completed successfully"
	descriptionByUser    = "Deployment marked as failed"
	descriptionDeadline  = "Failed due to progress deadline"
	descriptionUnhealthy = "Failed due to unhealthy allocations"
)

// running describes an active deployment.
func running(d *api.Deployment) string {
	switch {
	case len(unpromoted(d)) == 0:
		return descriptionRunning
	case promotesItself(d):
		return descriptionAuto
	}
	return descriptionManual
}
