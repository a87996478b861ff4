package state

import (
	"iter"

	"github.com/open-nomad/open-nomad/api"
)

// DeploymentKey is one deployment's row.
func DeploymentKey(id string) Key { return Key{TableDeployments, "id", id} }

// JobDeploymentsKey is all deployments of a job.
func JobDeploymentsKey(ns, job string) Key { return Key{TableDeployments, "job", rowKey(ns, job)} }

// Deployment returns the deployment, or nil.
func (t *Txn) Deployment(id string) *api.Deployment { return deployments.get(t, id) }

// Deployments lists the deployments of a namespace by id.
func (t *Txn) Deployments(ns string) iter.Seq[*api.Deployment] {
	return filter(deployments.all(t), func(d *api.Deployment) bool {
		return ns == api.AllNamespaces || d.Namespace == ns
	})
}

// DeploymentsByJob lists the deployments of a job.
func (t *Txn) DeploymentsByJob(ns, job string) iter.Seq[*api.Deployment] {
	return deployments.list(t, "job", rowKey(ns, job))
}

// PutDeployment stores the deployment.
func (t *Txn) PutDeployment(d *api.Deployment) { deployments.put(t, d) }

// DeleteDeployment deletes the deployment and reports whether there was one.
func (t *Txn) DeleteDeployment(id string) bool { return deployments.remove(t, t.Deployment(id)) }
