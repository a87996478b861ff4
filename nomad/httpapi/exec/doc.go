// Package exec has the HTTP endpoints that run a command in a task over a WebSocket. It is the caller of a session on the
// node: it repeats calls that were lost, so that a failover of the servers loses no byte, and ends the session with the
// connection.
package exec
