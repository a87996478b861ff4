package api

import "time"

// IdentityDefaultName is the name of the identity that every task has.
const IdentityDefaultName = "default"

// Audiences of signed identities that only servers accept.
const (
	// IdentityDefaultAudience is the audience of the default identity of a task.
	IdentityDefaultAudience = "nomadproject.io"
	// IdentityNodeAudience is the audience of the identity of a node.
	IdentityNodeAudience = "nomadproject.io/node"
	// IdentityIntroductionAudience is the audience of a token that introduces a new node.
	IdentityIntroductionAudience = "nomadproject.io/node-introduction"
)

// AllocSignIdentitiesRequest is the request of a node for signed identities of tasks that it runs.
type AllocSignIdentitiesRequest struct {
	NodeID     string          `msg:",omitempty"`
	NodeSecret string          `json:"-" msg:",omitempty" secret:"true"`
	Identities []*IdentityName `msg:",omitempty"`
	QueryOptions
}

// NodeCredentials implements [ByNode].
func (r *AllocSignIdentitiesRequest) NodeCredentials() (id, secret string) {
	return r.NodeID, r.NodeSecret
}

// IdentityName names one identity of a task, or of one of its services.
type IdentityName struct {
	AllocID string `msg:",omitempty"`
	Task    string `msg:",omitempty"`
	// Identity is the name of the identity block, or [IdentityDefaultName].
	Identity string `msg:",omitempty"`
	// Service is set for the identity of a service.
	Service string `msg:",omitempty"`
}

// SignedIdentity is a signed identity.
type SignedIdentity struct {
	IdentityName
	JWT string `msg:",omitempty" secret:"true"`
	// Expiration is the time at which the JWT ends; zero when it is valid for as long as the task runs.
	Expiration time.Time `msg:",omitempty"`
	// Error is the reason why this one was not signed; the others of the request are not affected.
	Error string `msg:",omitempty"`
}

// AllocSignIdentitiesResponse contains the signed identities in the order of the request.
type AllocSignIdentitiesResponse struct {
	Signed []*SignedIdentity `msg:",omitempty"`
	QueryMeta
}

// OIDCDiscovery describes the cluster as an identity provider, in the form of OpenID Connect Discovery 1.0.
type OIDCDiscovery struct {
	Issuer        string   `msg:",omitempty" json:"issuer"`
	JWKS          string   `msg:",omitempty" json:"jwks_uri"`
	IDTokenAlgs   []string `msg:",omitempty" json:"id_token_signing_alg_values_supported"`
	ResponseTypes []string `msg:",omitempty" json:"response_types_supported"`
	Subjects      []string `msg:",omitempty" json:"subject_types_supported"`
}

// OIDCDiscoveryResponse is the discovery document; nil without an issuer in the configuration.
type OIDCDiscoveryResponse struct {
	OIDCDiscovery *OIDCDiscovery `msg:",omitempty"`
	QueryMeta
}

// NodeIntroductionRequest requests a token that introduces one new node.
type NodeIntroductionRequest struct {
	// TTL is how long the token is valid; 0 is the default of the servers' configuration.
	TTL time.Duration `msg:",omitempty"`
	// NodeName and NodePool bind the token to a node of this name and pool; empty binds it to none.
	NodeName string `msg:",omitempty"`
	NodePool string `msg:",omitempty"`
	WriteRequest
}

// NodeIntroductionResponse contains the introduction token.
type NodeIntroductionResponse struct {
	JWT string `msg:",omitempty" secret:"true"`
	WriteMeta
}

// NodeIdentityResponse contains the claims of a node's identity as JSON.
type NodeIdentityResponse struct {
	Claims []byte `msg:",omitempty"`
	QueryMeta
}
