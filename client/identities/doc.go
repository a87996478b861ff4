// Package identities requests the signed identities of tasks from the servers.
//
// Only the servers can sign, and they decide what an identity contains: the node names the allocation, the task and the
// identity. Nothing that is signed is kept by this package or stored on the node, except in the files of the task.
// After a restart of the agent, identities are signed again.
package identities
