// Package regions keeps access control alike in all regions.
//
// Policies, roles, auth methods, binding rules and global tokens are written in the authoritative region. The servers of the
// other regions forward such writes ([Regions.Forwarded]), and their leaders copy what changes there ([Regions.Replicate]).
// Local tokens stay in their region.
package regions

import (
	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/secrets"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Regions forwards writes and copies rows. One without an authoritative region other than its own does nothing.
type Regions struct {
	Log   hclog.Logger
	State *state.Store
	Raft  fsm.Proposer
	// Region is the region of this server, and Authoritative the one where global objects are written; empty is Region.
	Region, Authoritative string
	// Servers calls methods of the servers of other regions.
	Servers wire.Caller
	// ReplicationToken is the secret of a management token of the authoritative region.
	ReplicationToken string
	// Secrets encrypts the secrets of tokens that are copied.
	Secrets *secrets.Box
}

// Elsewhere reports whether another region writes global objects.
func (s *Regions) Elsewhere() bool { return s.Authoritative != "" && s.Authoritative != s.Region }
