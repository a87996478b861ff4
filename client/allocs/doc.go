// Package allocs leads one allocation through its life on the node.
//
//	          Up of all steps            all tasks dead, or stop asked            Down of all steps
//	pending ──────────────────► running ───────────────────────────────► ending ───────────────────► done
//	   │                                                                    ▲                          │ Destroy
//	   └── a step failed, or stop asked: at once ───────────────────────────┘                          ▼
//	                                                                                                 (gone)
//
// The steps are listed in steps.go, in order. A stop cancels whatever Up is doing. Down never gives up: an
// allocation whose volumes cannot be unmounted stays ending, and is still ending after a restart of the
// agent, for the step journal remembers it. The status that the servers see follows the tasks only, so a
// finished workload is told before its volumes are unmounted; the volumes tell about themselves.
//
// When the context of [Alloc.Run] ends, tasks and mounts stay as they are. A new agent process makes the
// allocation again from its record and runs the steps again, which adopt what they find.
//
// While somebody waits for the health of the allocation (a deployment, or a drain), it is found from the states
// of its tasks (health.go), decided once, stored and told.
//
// Who writes what: the servers' half of the allocation by [Alloc.Update], its health by attendHealth, the scope of the steps by the
// step that each field names, everything else by Run.
package allocs
