// Package agent builds and runs an agent: a server, a client, or both in one process, with the HTTP
// server. It is the only place that sees both halves; they talk over the RPC port like strangers.
//
// [Run] starts everything, waits for a signal or a failure, and stops in the reverse order. A plain
// stop leaves tasks running: the next agent adopts them. With -dev they are ended.
package agent
