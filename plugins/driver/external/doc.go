// Package external runs task drivers that are programs of their own, over the protocol of plugins/driver/external/protocol.
//
// A driver is one process, which is started when it is first needed and killed with the agent. It is started again, later
// each time, when it ends, sends anything but the protocol, or does not respond. Meanwhile its driver is unhealthy with the
// reason, and calls about its tasks wait or fail with class fault.Unavailable. A new process recovers all known tasks
// by their handles before it gets calls. A task that it does not find has the exit "lost".
//
// Package serve is the other side, for drivers in Go.
package external
