// Package nomad builds a server: the state, the replicated log, the RPC server and the services, and says
// which loops the leader runs. It decides nothing itself.
package nomad
