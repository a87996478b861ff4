// Package client is the node: it builds the services of the client and ties them to the servers.
//
//	n, err := client.New(conf)
//	err = n.Run(ctx)          // until ctx ends; tasks and mounts stay, except with Config.Dev
//
// What happens, in order: the node finds out what it is, takes up the allocations that an earlier agent
// process left, then registers, and from then on heartbeats, follows its assignments with a blocking query,
// and reports the states of tasks. Reports go out at once when the node is idle and are gathered for
// [reportGap] while they come thick.
//
// The loops and the state that each owns: assign.go the set of allocations, report.go the list of what the servers have
// not received, node.go the node record's way to the servers, gc_ended.go the removal of ended allocations, disk.go
// whether the node can write its directories: while it cannot, all task drivers are shown unhealthy, so that nothing
// new is placed, and running tasks continue. They meet in [table], the set of allocations by id, and in [record], the
// current node.
package client
