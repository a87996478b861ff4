// Package consensus is the replicated log of the servers: hashicorp/raft, its leadership, its members and the restore of
// archives. Its goroutines live from [Open] to [Raft.Close].
package consensus
