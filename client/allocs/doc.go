// Package allocs leads one allocation through its life on the node.
//
//	          Up of all steps            all tasks dead, or stop asked            Down of all steps
//	pending ──────────────────► running ───────────────────────────────► ending ───────────────────► done
//	   │                                                                    ▲                          │ Destroy
//	   └── a step failed, or stop asked: at once ───────────────────────────┘                          ▼
//	                                                                                               (removed)
//
// The steps are listed in steps.go, in order. A stop cancels whatever Up is doing. Down retries indefinitely: an
// allocation whose volumes cannot be unmounted stays ending, also after a restart of the agent, because the step
// journal records it. The status that the servers see follows the tasks only, so a finished workload is reported before
// its volumes are unmounted; the volume service reports their unmounting.
//
// When the context of [Alloc.Run] ends, tasks and mounts stay as they are. A new agent process makes the
// allocation again from its record and runs the steps again, which adopt what they find.
//
// An allocation with a sticky disk gets the data of its predecessor before its tasks start (data.go): its directories are
// moved when the predecessor is down. A predecessor whose data is wanted is not collected.
//
// While a deployment or a drain waits for the health of the allocation, the health is derived from the states of its
// tasks and the checks of its services (health.go), decided once, stored and reported.
//
// Who writes what: the servers' half of the allocation by [Alloc.Update], its health by attendHealth, the scope of the steps by the
// step that each field names, everything else by Run.
package allocs
