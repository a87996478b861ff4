package api

//msgp:ignore ACLTokenListStub ACLPolicyListStub

import "time"

// Types of ACL tokens.
const (
	// ACLClientToken is a token that permits what its policies and roles permit.
	ACLClientToken = "client"
	// ACLManagementToken is a token that permits everything.
	ACLManagementToken = "management"
)

// Names that are part of the interface.
const (
	// AnonymousPolicy is the policy of requests without a token.
	AnonymousPolicy = "anonymous"
	// AnonymousAccessor is the accessor of requests without a token.
	AnonymousAccessor = "anonymous"
)

// ACLToken is a secret that authenticates a user, with what it permits.
type ACLToken struct {
	AccessorID string `msg:",omitempty"`
	// SecretID is encrypted in the state, where SecretHash finds the token.
	SecretID string `msg:",omitempty" secret:"true"`
	// SecretHash is the SHA-256 of the secret, in hex; it is empty in requests and responses.
	SecretHash string `json:"-" msg:",omitempty" secret:"true"`
	Name       string `msg:",omitempty"`
	// Type is [ACLClientToken] or [ACLManagementToken].
	Type     string              `msg:",omitempty"`
	Policies []string            `msg:",omitempty"`
	Roles    []*ACLTokenRoleLink `msg:",omitempty"`
	// Global tokens are valid in all regions.
	Global     bool      `msg:",omitempty"`
	Hash       []byte    `msg:",omitempty"`
	CreateTime time.Time `msg:",omitempty"`
	// ExpirationTime is nil when the token does not expire.
	ExpirationTime *time.Time `msg:",omitempty"`
	// ExpirationTTL sets ExpirationTime when the token is created.
	ExpirationTTL time.Duration `msg:",omitempty"`
	CreateIndex   uint64        `msg:",omitempty"`
	ModifyIndex   uint64        `msg:",omitempty"`
}

// ACLTokenRoleLink names a role of a token. Requests give the ID or the name.
type ACLTokenRoleLink struct {
	ID   string `msg:",omitempty"`
	Name string `msg:",omitempty"`
}

// ACLTokenListStub is what lists show of a token.
type ACLTokenListStub struct {
	AccessorID     string
	Name           string
	Type           string
	Policies       []string
	Roles          []*ACLTokenRoleLink
	Global         bool
	Hash           []byte
	CreateTime     time.Time
	ExpirationTime *time.Time
	CreateIndex    uint64
	ModifyIndex    uint64
}

// Stub returns what lists show of the token.
func (t *ACLToken) Stub() *ACLTokenListStub {
	return &ACLTokenListStub{
		AccessorID: t.AccessorID, Name: t.Name, Type: t.Type, Policies: t.Policies, Roles: t.Roles, Global: t.Global, Hash: t.Hash,
		CreateTime: t.CreateTime, ExpirationTime: t.ExpirationTime, CreateIndex: t.CreateIndex, ModifyIndex: t.ModifyIndex,
	}
}

// Expired reports whether the token is not valid any more.
func (t *ACLToken) Expired(now time.Time) bool {
	return t.ExpirationTime != nil && !t.ExpirationTime.IsZero() && !now.Before(*t.ExpirationTime)
}

// ACLPolicy is a named set of rules in HCL.
type ACLPolicy struct {
	Name        string `msg:",omitempty"`
	Description string `msg:",omitempty"`
	// Rules are the rules as the user wrote them.
	Rules string `msg:",omitempty"`
	// JobACL attaches the policy to the workload identities of a job.
	JobACL      *JobACL `msg:",omitempty"`
	Hash        []byte  `msg:",omitempty"`
	CreateIndex uint64  `msg:",omitempty"`
	ModifyIndex uint64  `msg:",omitempty"`
}

// JobACL names a job, or a group or a task of it.
type JobACL struct {
	Namespace string `msg:",omitempty"`
	JobID     string `msg:",omitempty"`
	Group     string `msg:",omitempty"`
	Task      string `msg:",omitempty"`
}

// ACLPolicyListStub is what lists show of a policy.
type ACLPolicyListStub struct {
	Name        string
	Description string
	JobACL      *JobACL
	Hash        []byte
	CreateIndex uint64
	ModifyIndex uint64
}

// Stub returns what lists show of the policy.
func (p *ACLPolicy) Stub() *ACLPolicyListStub {
	return &ACLPolicyListStub{
		Name: p.Name, Description: p.Description, JobACL: p.JobACL, Hash: p.Hash, CreateIndex: p.CreateIndex, ModifyIndex: p.ModifyIndex,
	}
}

// ACLRole is a named set of policies.
type ACLRole struct {
	ID          string               `msg:",omitempty"`
	Name        string               `msg:",omitempty"`
	Description string               `msg:",omitempty"`
	Policies    []*ACLRolePolicyLink `msg:",omitempty"`
	Hash        []byte               `msg:",omitempty"`
	CreateIndex uint64               `msg:",omitempty"`
	ModifyIndex uint64               `msg:",omitempty"`
}

// ACLRolePolicyLink names a policy of a role.
type ACLRolePolicyLink struct {
	Name string `msg:",omitempty"`
}

// OneTimeToken is a secret that can be exchanged once for the token that it was made with.
type OneTimeToken struct {
	OneTimeSecretID string    `msg:",omitempty" secret:"hash"`
	AccessorID      string    `msg:",omitempty"`
	ExpiresAt       time.Time `msg:",omitempty"`
	CreateIndex     uint64    `msg:",omitempty"`
	ModifyIndex     uint64    `msg:",omitempty"`
}

// ACLBootstrap records that the first management token was created.
type ACLBootstrap struct {
	// ResetIndex is the index of the last bootstrap; a reset names it.
	ResetIndex uint64 `msg:",omitempty"`
}
