// Package program runs plugins that are programs of their own, such as task drivers and device plugins: what all kinds of them
// have in common.
//
// A plugin is one process, which speaks the handshake of go-plugin with gRPC on a unix socket. It is killed with the agent. It
// is started again, later each time, when it ends, sends anything but the protocol, or does not respond. [Program.Keep] does
// that; what the calls of a kind are is the business of the caller. [Serve] is the side of the plugin.
//
// Package schema describes the configuration of plugins.
package program
