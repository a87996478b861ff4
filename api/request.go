package api

import "time"

// QueryOptions are the options of every read. The zero value is a consistent read that does not block.
type QueryOptions struct {
	Region    string `json:",omitempty" msg:",omitempty"`
	Namespace string `json:",omitempty" msg:",omitempty"`
	AuthToken string `json:",omitempty" msg:",omitempty" secret:"true"`
	// Stale allows a response from a server that is not the leader.
	Stale bool `json:",omitempty" msg:",omitempty"`
	// MinIndex makes the read wait until the response's index is greater; 0 does not wait.
	MinIndex uint64 `json:",omitempty" msg:",omitempty"`
	// MaxWait limits that wait; 0 means the server's default of 5 minutes.
	MaxWait time.Duration `json:",omitempty" msg:",omitempty"`
	Prefix  string        `json:",omitempty" msg:",omitempty"`
	Filter  string        `json:",omitempty" msg:",omitempty"`
	// PerPage limits the rows of a list; 0 means all.
	PerPage   int32  `json:",omitempty" msg:",omitempty"`
	NextToken string `json:",omitempty" msg:",omitempty"`
	Reverse   bool   `json:",omitempty" msg:",omitempty"`
}

// QueryMeta is the metadata of every read's response.
type QueryMeta struct {
	// Index is the raft index of the state in the response; it is sent as X-Nomad-Index.
	Index       uint64        `msg:",omitempty"`
	LastContact time.Duration `msg:",omitempty"`
	KnownLeader bool          `msg:",omitempty"`
	NextToken   string        `msg:",omitempty"`
}

// WriteRequest are the options of every write.
type WriteRequest struct {
	Region           string `json:",omitempty" msg:",omitempty"`
	Namespace        string `json:",omitempty" msg:",omitempty"`
	SecretID         string `json:",omitempty" msg:",omitempty" secret:"true"`
	IdempotencyToken string `json:",omitempty" msg:",omitempty"`
}

// WriteMeta is the metadata of every write's response.
type WriteMeta struct {
	// Index is the raft index of the write.
	Index uint64 `msg:",omitempty"`
}

// Empty is a request or reply without content.
type Empty struct{}
