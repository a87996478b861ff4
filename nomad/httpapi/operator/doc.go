// Package operator has the HTTP endpoints of those who run the cluster.
package operator
