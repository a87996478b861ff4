// Package rawexec runs tasks as plain processes of the host, each under a supervising process of its own
// (see plugins/driver/supervise), so that tasks outlive the agent.
//
// A task has the host's files, network and processes. A task with mounts gets a mount namespace of its
// own; the host's tree stays as it is. A task without mounts shares the host's namespace, which is what a
// CSI plugin needs: its mounts must be seen by the node.
//
// Each task has a socket and, after its end, an exit file in Config.StateDir; both belong to its supervising
// process and are removed by Destroy. Everything needed to find a task again is in its handle; Prune ends those that no
// handle names, because the agent died between starting one and storing its handle.
package rawexec
