// Package csiplugins manages the CSI plugins that tasks of this node provide. It supervises them, probes their health,
// publishes them in the node's fingerprint, limits the concurrent calls to them, and makes the controller calls of
// servers.
//
// # Instances
//
// A [Plugin] is one instance: a socket that one task of one allocation serves. It is registered with its first
// good probe, unhealthy while its task does not run, and forgotten when its allocation ends ([Service.Drop]) or
// when its task stays away for Config.Grace. The newest healthy instance of an id gets the calls.
//
// # Calls
//
// [Service.Turn] lets one call per volume through at a time, regardless of the caller, and bounds the calls in flight
// to each plugin. A call that waits for a volume does not hold a slot of the plugin.
//
// # Invariants
//
//   - The end of the agent is not the end of a plugin: nothing is reported unhealthy because of it.
//   - Capabilities stay known while a plugin is unhealthy.
//   - A directory that is, or contains, a mount is never removed.
package csiplugins
