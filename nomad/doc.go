// Package nomad builds a server: the state, the replicated log, the RPC door and the rooms, and says
// which duties the leader has. It decides nothing itself.
package nomad
