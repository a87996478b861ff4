// Package csiplugins knows the CSI plugins that tasks of this node provide: it supervises them, probes their
// health, tells the node's fingerprint, gives out the places of calls to them, and makes the controller calls
// of servers.
//
// # Instances
//
// A [Plugin] is one instance: a socket that one task of one allocation serves. It is registered with its first
// good probe, unhealthy while its task does not run, and forgotten when its allocation ends ([Service.Drop]) or
// when its task stays away for Config.Grace. The newest healthy instance of an id gets the calls.
//
// # Calls
//
// [Service.Turn] lets one call per volume through at a time, whoever makes it, and bounds the calls in flight
// to each plugin. Who waits for a volume keeps no place.
//
// # Invariants
//
//   - The end of the agent is not the end of a plugin: nothing is reported unhealthy because of it.
//   - Capabilities stay known while a plugin is unhealthy.
//   - A directory that is, or contains, a mount is never removed.
package csiplugins
