// Package nomad builds a server: the state, the replicated log, the RPC server, the services and the loops
// that the leader runs. It contains no scheduling or volume logic.
package nomad
