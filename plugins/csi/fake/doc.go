// Package fake is a CSI driver for tests: it keeps volumes in memory, is served on a real unix socket, does
// what a fault script says, and watches whether its caller keeps to the rules.
//
// A [Storage] is the provider and outlives drivers; each [Driver] is one plugin process on one node. With
// Config.DataDir volumes are directories and staging and publishing make real bind mounts.
//
// # Faults
//
// A [Fault] names a call, and maybe a volume, node or how many calls to let pass. It can answer an error
// instead of working, work first and then answer an error or nothing (Late), delay, hang until the caller
// gives up, or crash the plugin.
//
// # Rules
//
// [Storage.Violations] lists what the caller did against the specification: two changing calls in flight for
// one volume, a second attachment of a single-node volume, staging before attaching, publishing before
// staging, unstaging under a published target, a second staging path, detaching what is staged, deleting
// what is in use.
package fake
