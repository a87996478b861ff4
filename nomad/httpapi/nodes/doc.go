// Package nodes has the HTTP endpoints of nodes and of node pools.
package nodes
