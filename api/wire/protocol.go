package wire

// The protocols that share one port, by ALPN.
const (
	ProtocolRaft    = "nomad-raft/1"
	ProtocolRPC     = "nomad-rpc/1"
	ProtocolReverse = "nomad-rev/1"
)
