package api

// RaftPeerRequest names a Raft peer by id, or where allowed by address.
type RaftPeerRequest struct {
	ID      string `msg:",omitempty"`
	Address string `msg:",omitempty"`
	WriteRequest
}

// LeadershipTransferResponse names the source and the target of the requested transfer of leadership.
type LeadershipTransferResponse struct {
	From RaftServer `msg:",omitempty"`
	To   RaftServer `msg:",omitempty"`
	Noop bool       `msg:",omitempty"`
	Err  string     `msg:",omitempty"`
}

// AutopilotConfigResponse holds the autopilot's configuration.
type AutopilotConfigResponse struct {
	Config *AutopilotConfiguration `msg:",omitempty"`
	QueryMeta
}

// AutopilotConfigRequest writes the autopilot's configuration; with CAS only if its ModifyIndex is current.
type AutopilotConfigRequest struct {
	Config *AutopilotConfiguration `msg:",omitempty"`
	CAS    bool                    `msg:",omitempty"`
	WriteRequest
}

// AutopilotConfigWriteResponse reports whether the configuration was written.
type AutopilotConfigWriteResponse struct {
	Updated bool `msg:",omitempty"`
	WriteMeta
}

// ServerHealthResponse holds the health of the servers.
type ServerHealthResponse struct {
	Health *OperatorHealthReply `msg:",omitempty"`
}

// SnapshotReadRequest reads a piece of a snapshot. Without a Token it creates a new snapshot.
type SnapshotReadRequest struct {
	Token  string `msg:",omitempty"`
	Offset int64  `msg:",omitempty"`
	// Redact omits secrets; such a snapshot is for inspection and cannot be restored.
	Redact bool `msg:",omitempty"`
	QueryOptions
}

// SnapshotReadResponse is a piece of a snapshot's archive; the last one has EOF.
type SnapshotReadResponse struct {
	Token string `msg:",omitempty"`
	// Size is the archive's length in bytes, Digest its SHA-256 in base64.
	Size   int64  `msg:",omitempty"`
	Digest string `msg:",omitempty"`
	Data   []byte `msg:",omitempty"`
	EOF    bool   `msg:",omitempty"`
	QueryMeta
}

// SnapshotRestoreRequest contains a piece of a snapshot's archive. Without a Token it starts a new transfer; with Last
// the whole archive is verified and then restored.
type SnapshotRestoreRequest struct {
	Token  string `msg:",omitempty"`
	Offset int64  `msg:",omitempty"`
	Data   []byte `msg:",omitempty"`
	Last   bool   `msg:",omitempty"`
	// Force also restores while external volumes are attached.
	Force bool `msg:",omitempty"`
	WriteRequest
}

// SnapshotRestoreResponse contains the token for the next piece.
type SnapshotRestoreResponse struct {
	Token string `msg:",omitempty"`
	// Warnings are for the operator after a restore.
	Warnings string `msg:",omitempty"`
	WriteMeta
}

// ServerJoinRequest lists gossip addresses to join.
type ServerJoinRequest struct {
	Addresses []string `msg:",omitempty"`
	WriteRequest
}

// ServerJoinResponse counts the servers that were joined.
type ServerJoinResponse struct {
	Joined int    `msg:",omitempty"`
	Error  string `msg:",omitempty"`
}

// ServerForceLeaveRequest ejects a failed server; Prune also removes one that has left.
type ServerForceLeaveRequest struct {
	Name  string `msg:",omitempty"`
	Prune bool   `msg:",omitempty"`
	WriteRequest
}

// KeyringOp is an operation on the gossip key ring.
type KeyringOp string

// Operations on the gossip key ring.
const (
	KeyringList    KeyringOp = "list"
	KeyringInstall KeyringOp = "install"
	KeyringUse     KeyringOp = "use"
	KeyringRemove  KeyringOp = "remove"
)

// KeyringRequest changes or lists the gossip key ring of all servers.
type KeyringRequest struct {
	Op  KeyringOp `msg:",omitempty"`
	Key string    `msg:",omitempty" secret:"true"`
	WriteRequest
}

// RegionListResponse lists the known regions by name.
type RegionListResponse struct {
	Regions []string `msg:",omitempty"`
}

// PeerInfoResponse describes a server's log to other servers.
type PeerInfoResponse struct {
	// ID is the server's id; Cluster is the id of its cluster, empty before it has one.
	ID      string `msg:",omitempty"`
	Cluster string `msg:",omitempty"`
	// Bootstrapped is set when the server has a log with a configuration.
	Bootstrapped bool `msg:",omitempty"`
	// Seen are the ids of the servers of its region that also wait for a first configuration.
	Seen []string `msg:",omitempty"`
	// LastIndex, LastTerm and LastContact are for the autopilot.
	LastIndex     uint64 `msg:",omitempty"`
	LastTerm      uint64 `msg:",omitempty"`
	LastContactNS int64  `msg:",omitempty"`
	// Applied is the index of the server's state.
	Applied uint64 `msg:",omitempty"`
	// Leaving is set while the server leaves the cluster permanently.
	Leaving bool `msg:",omitempty"`
	// Version is the newest version of the log that the server understands.
	Version uint64 `msg:",omitempty"`
}
