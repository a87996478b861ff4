package api

import "time"

// AutopilotConfiguration configures how the leader manages the set of servers. On the wire durations
// are texts such as "200ms".
type AutopilotConfiguration struct {
	// CleanupDeadServers removes failed servers when a new one has joined or enough remain.
	CleanupDeadServers bool `msg:",omitempty"`
	// LastContactThreshold is the maximum time since a healthy follower's last contact with the leader.
	LastContactThreshold time.Duration `msg:",omitempty"`
	// MaxTrailingLogs is the maximum number of log entries that a healthy follower may be behind.
	MaxTrailingLogs uint64 `msg:",omitempty"`
	// MinQuorum is the number of servers below which none is cleaned up.
	MinQuorum uint `msg:",omitempty"`
	// ServerStabilizationTime is the time that a new server must be healthy before it becomes a voter.
	ServerStabilizationTime time.Duration `msg:",omitempty"`
	EnableRedundancyZones   bool          `msg:",omitempty"`
	DisableUpgradeMigration bool          `msg:",omitempty"`
	EnableCustomUpgrades    bool          `msg:",omitempty"`
	CreateIndex             uint64        `msg:",omitempty"`
	ModifyIndex             uint64        `msg:",omitempty"`
}

// OperatorHealthReply is the health of the servers of a region.
type OperatorHealthReply struct {
	Healthy bool `msg:",omitempty"`
	// FailureTolerance is the number of healthy servers that may fail without loss of the quorum.
	FailureTolerance int             `msg:",omitempty"`
	Leader           string          `msg:",omitempty"`
	Voters           []string        `msg:",omitempty"`
	Servers          []*ServerHealth `msg:",omitempty"`
}

// ServerHealth is the health of one server as the leader sees it.
type ServerHealth struct {
	ID          string        `msg:",omitempty"`
	Name        string        `msg:",omitempty"`
	Address     string        `msg:",omitempty"`
	SerfStatus  string        `msg:",omitempty"`
	Version     string        `msg:",omitempty"`
	Leader      bool          `msg:",omitempty"`
	LastContact time.Duration `msg:",omitempty"`
	LastTerm    uint64        `msg:",omitempty"`
	LastIndex   uint64        `msg:",omitempty"`
	Healthy     bool          `msg:",omitempty"`
	Voter       bool          `msg:",omitempty"`
	StableSince time.Time     `msg:",omitempty"`
}

// KeyringResponse is the response of every operation on the gossip key ring.
type KeyringResponse struct {
	// Messages maps the names of servers to their errors.
	Messages map[string]string `msg:",omitempty"`
	// Keys counts the servers that have a key.
	Keys     map[string]int `msg:",omitempty" secret:"true"`
	NumNodes int            `msg:",omitempty"`
}
