// Package rpc is the RPC server: it serves the method table to nodes, to other servers and
// to the HTTP server in the same process, and reaches nodes over the connections that they dialled.
//
// Every call passes the same interceptors, wherever it came from:
//
//	recover -> observe -> region -> authenticate -> leader -> handler
//
// Region sends what names another region to a server there.
// Authenticate refuses node methods without the node's secret, and server methods of a peer whose
// certificate is not that of a server.
// Leader forwards calls that only the leader may serve: methods of scope Leader, and those of scope Any
// unless the request allows stale data. The deadline travels along; hops are counted and bounded. The
// first server that receives a call holds it for some seconds while there is no leader.
//
// A node that is connected to another server is called through that one (Node.Relay), one hop at most.
// Users whose agent is in another region, or no server, reach nodes by Node.Call, which passes on only
// what users may call.
//
// Invariants:
//   - Handlers see requests that were authorised and are where they belong.
//   - A node has at most one reversed connection here, the newest.
//   - Objects that a handler returns belong to the state store: in-process callers must not change them.
package rpc
