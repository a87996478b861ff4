package nomad

import (
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api/wire/certs"
	"github.com/open-nomad/open-nomad/api/wire/transport"
	"github.com/open-nomad/open-nomad/internal/inspect"
	"github.com/open-nomad/open-nomad/nomad/acl"
	"github.com/open-nomad/open-nomad/nomad/gc"
	"github.com/open-nomad/open-nomad/nomad/jobs/rules"
	"github.com/open-nomad/open-nomad/nomad/keyring"
	"github.com/open-nomad/open-nomad/nomad/member"
	"github.com/open-nomad/open-nomad/nomad/nodes"
	"github.com/open-nomad/open-nomad/nomad/operator"
	"github.com/open-nomad/open-nomad/nomad/plan"
	"github.com/open-nomad/open-nomad/nomad/search"
	"github.com/open-nomad/open-nomad/nomad/volumes/reconciler"
)

// eventBuffer is the default number of indexes in the buffer of events.
const eventBuffer = 100

// Config is what a server needs.
type Config struct {
	Name, Region, Datacenter, Version string
	// Dir keeps the log, snapshots and the server's identity; empty keeps everything in memory.
	Dir string
	// Bind is the address of the RPC port, Advertise the address sent to other agents; empty means the bound one.
	Bind, Advertise string
	// Workers is how many evaluations are processed at once; 0 means a default, a negative number none.
	Workers int
	// Schedulers are the types of jobs whose evaluations this server processes; none means all.
	Schedulers []string
	// Rejections configures what happens to nodes on which plans are rejected repeatedly.
	Rejections  plan.Rejections
	JobVersions int
	// EventBuffer is how many raft indexes the buffer of events has; 0 means 100. NoEvents turns the event stream off.
	EventBuffer int
	NoEvents    bool
	Heartbeat   nodes.Heartbeat
	GC          gc.Limits
	Jobs        rules.Limits
	Volumes     reconciler.Limits
	Search      search.Limits
	// Introduction is the requirement for new nodes.
	Introduction nodes.Introduction
	// Keyring configures the age of root keys.
	Keyring keyring.Limits
	// KeyProviders are the external services that encrypt wrapping keys. NoKeyFiles writes no key files.
	KeyProviders []keyring.Provider
	NoKeyFiles   bool
	// Begin is what a new cluster begins with; later changes are made by its operators.
	Begin operator.Begin
	// TLS proves this server to others and others to it; nil encrypts with a certificate that proves nothing.
	TLS *certs.Reloadable
	// AccessControl makes tokens decide what callers may do.
	AccessControl bool
	// Tokens bounds how long tokens live.
	Tokens acl.Limits
	// AuthoritativeRegion is where global tokens, policies, roles and auth methods are written; empty is this region.
	AuthoritativeRegion string
	// ReplicationToken is the secret of a management token of that region, which copies them to this one.
	ReplicationToken string
	// OIDCIssuer is the URL at which third parties reach this cluster as an OpenID Connect provider; it may be empty.
	OIDCIssuer string
	// Inspect is the agent as operators look into it; nil refuses that.
	Inspect *inspect.Agent
	// Limits bound what one client may take of the RPC port.
	Limits transport.Limits
	// Gossip finds other servers; nil is a server that stays alone and is a cluster of its own.
	Gossip *Gossip
	// Raft tunes the replicated log.
	Raft RaftTuning
	// Telemetry is how the server is measured.
	Telemetry Telemetry
	Log       hclog.Logger
}

// Gossip is how a server finds others.
type Gossip struct {
	// Bind is the gossip address, Advertise the address sent to other servers; empty means the bound one.
	Bind, Advertise string
	// Expect is how many servers make a new cluster together: 1 is one of its own, 0 waits to be taken in.
	Expect int
	// Encrypt is the first gossip key in base64.
	Encrypt          string
	Join             member.Join
	RejoinAfterLeave bool
}

// RaftTuning is what may be tuned about the replicated log; zero values mean defaults.
type RaftTuning struct {
	// Multiplier scales how long servers wait for a leader; more is calmer on slow hosts.
	Multiplier        int
	SnapshotInterval  time.Duration
	SnapshotThreshold uint64
	TrailingLogs      uint64
}

// single reports whether the server is a cluster of its own when it has no log yet.
func (c Config) single() bool { return c.Gossip == nil || c.Gossip.Expect == 1 }

func (c Config) transport() (certs.TLS, error) {
	if c.TLS != nil {
		return c.TLS.TLS(), nil
	}
	return certs.SelfMade()
}
