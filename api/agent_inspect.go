package api

import "time"

// AgentMonitorRequest reads the log of an agent as it is written. The first request has no session; the next ones have that of
// the reply before. A session ends when no request uses it for half a minute.
type AgentMonitorRequest struct {
	// ServerID is the name or the id of a server, or "leader"; empty for the log of a node.
	ServerID string `msg:",omitempty"`
	NodeID   string `msg:",omitempty"`
	Session  string `msg:",omitempty"`
	// LogLevel is the least level of lines: trace, debug, info, warn or error; empty is info.
	LogLevel string `msg:",omitempty"`
	// LogJSON writes each line as JSON, IncludeLocation with its place in the source.
	LogJSON         bool `msg:",omitempty"`
	IncludeLocation bool `msg:",omitempty"`
	// Position is how many bytes of the session the caller has; they are removed.
	Position int64 `msg:",omitempty"`
	// Wait bounds the wait for a new line; at most 10 s.
	Wait time.Duration `msg:",omitempty"`
	// OnDisk reads the log file of the agent, and ServiceName the journal of a systemd unit, in place of the log as it is written.
	OnDisk      bool   `msg:",omitempty"`
	ServiceName string `msg:",omitempty"`
	// LogsSince is the age of the first line of the journal; 0 is 72 h. Follow continues with new lines of the journal.
	LogsSince time.Duration `msg:",omitempty"`
	Follow    bool          `msg:",omitempty"`
	QueryOptions
}

// AgentMonitorResponse has whole lines of a log.
type AgentMonitorResponse struct {
	Session string `msg:",omitempty"`
	// Position is that of the end of Data.
	Position int64  `msg:",omitempty"`
	Data     []byte `msg:",omitempty"`
	// Done means that nothing follows.
	Done bool `msg:",omitempty"`
}

// AgentHostRequest asks what the host of an agent is.
type AgentHostRequest struct {
	ServerID string `msg:",omitempty"`
	NodeID   string `msg:",omitempty"`
	QueryOptions
}

// HostDataResponse is the host of an agent.
type HostDataResponse struct {
	AgentID  string
	HostData *HostData `json:",omitempty" msg:",omitempty"`
}

// HostData is a host as its agent sees it.
type HostData struct {
	OS string `msg:",omitempty"`
	// Network lists the addresses of the network interfaces.
	Network    []map[string]string `msg:",omitempty"`
	ResolvConf string              `msg:",omitempty"`
	Hosts      string              `msg:",omitempty"`
	// Environment has the variables of the agent that hold no secrets.
	Environment map[string]string `msg:",omitempty"`
	// Disk is the use of mounted file systems by their mount points.
	Disk map[string]DiskUsage `msg:",omitempty"`
}

// DiskUsage is the use of a file system in MiB.
type DiskUsage struct {
	DiskMB int64 `msg:",omitempty"`
	UsedMB int64 `msg:",omitempty"`
}

// AgentProfileRequest takes a profile of an agent.
type AgentProfileRequest struct {
	ServerID string `msg:",omitempty"`
	NodeID   string `msg:",omitempty"`
	// Profile is cmdline, profile (of the processors), trace, or the name of another profile of the Go runtime, such as heap.
	Profile string `msg:",omitempty"`
	// Seconds is how long processors are profiled or a trace is taken; 0 is 1, at most 60.
	Seconds int `msg:",omitempty"`
	// Debug writes text in place of the format of the tool pprof when it is above 0. GC collects garbage before a profile of the heap.
	Debug int `msg:",omitempty"`
	GC    int `msg:",omitempty"`
	QueryOptions
}

// AgentProfileResponse is a profile.
type AgentProfileResponse struct {
	AgentID string `msg:",omitempty"`
	// Text says that Payload is text.
	Text    bool   `msg:",omitempty"`
	Payload []byte `msg:",omitempty"`
}
