// Package member knows the other servers: it gossips with those of all regions, writes the first
// configuration of a new cluster, and on the leader keeps the Raft peers in step with the servers of
// the region.
//
// Invariants:
//   - Gossip is never proof: a server is added only after it replied on its RPC port, where
//     certificates prove its identity, and only with no log or with the log of this cluster.
//   - One server alone writes the first configuration, and only when all that wait see the same servers.
//   - Events of the gossip library are always drained; what follows from them is read from the list of
//     members, so a lost event costs a tick, not a server.
//
// Writers: the leader names the cluster ([NameCluster]); the file cluster_id in the server's directory
// repeats that name for the time before the log is applied, and is written by [Members.Run] alone.
package member
