// Package allocs is the service of allocations: reading them, stopping them, and taking over what nodes
// report.
//
// Who writes what in an [api.Allocation]: plan apply the placement and the desired half; this service the
// client half (client status and description, task states, deployment health, network status), always
// from the node that runs it, and DesiredTransition. AllocModifyIndex moves with the desired half only,
// so that a node is not notified of its own reports.
//
// Reports of all nodes that arrive while a raft entry is under way are brought into the next entry
// together. An allocation that failed is evaluated in the same entry, and the claims of its volumes
// follow its client status. The counters of deployments follow the health that nodes report (health.go).
package allocs
