// Package deployments has the HTTP endpoints of deployments.
package deployments
