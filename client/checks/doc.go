// Package checks runs the checks of the services of the allocations on this node.
//
// A [Prober] belongs to the node and bounds how many probes run at once; a [Set] holds the checks of one allocation.
// A check probes its service at its interval while what it depends on runs: the task of the service, or all main tasks of the
// group. A check of type script is a program that runs in its task. The status of a check is pending until enough probes have
// agreed, and again after each start of the tasks:
//
//	          enough successes               enough failures
//	pending ───────────────────► success ◄──────────────────► failure
//	   ▲                            │                            │
//	   └────────────────────────────┴──── the tasks start again ─┘
//
// A script that ends with exit code 1 makes the status warning at once, from any other, and both counts begin again.
//
// The results stay on the node: users read them through the servers, the health of the allocation follows them, and a check
// with check_restart restarts tasks. A restarted agent begins with pending checks.
package checks
