// Package exec runs tasks as processes of the host that are kept apart from it: each has a root directory made of parts of
// the host, processes and shared memory of its own, few capabilities, and no way to get more.
//
// Supervision, output, volumes, leases and recovery are those of plugins/driver/rawexec, of which this driver is a variant.
// What keeps a task apart is made by the supervising program, see plugins/driver/supervise/isolate. This package reads the
// configuration: it defines what of the host a task sees and which capabilities it has.
package exec
