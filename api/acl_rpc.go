package api

// ACLTokenRequest names a token by its accessor.
type ACLTokenRequest struct {
	AccessorID string `msg:",omitempty"`
	QueryOptions
}

// ACLTokenResponse holds one token; nil when it does not exist.
type ACLTokenResponse struct {
	Token *ACLToken `msg:",omitempty"`
	QueryMeta
}

// ACLTokenListRequest lists tokens.
type ACLTokenListRequest struct {
	GlobalOnly bool `msg:",omitempty"`
	QueryOptions
}

// ACLTokenListResponse lists tokens without their secrets, except for the replication of other regions.
type ACLTokenListResponse struct {
	Tokens []*ACLToken `msg:",omitempty"`
	QueryMeta
}

// ACLTokenUpsertRequest creates or updates a token.
type ACLTokenUpsertRequest struct {
	Token *ACLToken `msg:",omitempty"`
	WriteRequest
}

// ACLTokenWriteResponse holds the token as it was stored.
type ACLTokenWriteResponse struct {
	Token *ACLToken `msg:",omitempty"`
	WriteMeta
}

// ACLTokenDeleteRequest deletes tokens.
type ACLTokenDeleteRequest struct {
	AccessorIDs []string `msg:",omitempty"`
	WriteRequest
}

// ACLBootstrapRequest creates the first management token.
type ACLBootstrapRequest struct {
	// BootstrapSecret is the secret of the token; empty makes a random one.
	BootstrapSecret string `msg:",omitempty" secret:"true"`
	WriteRequest    `json:"-"`
}

// OneTimeTokenRequest makes a one-time token for the caller's token.
type OneTimeTokenRequest struct {
	WriteRequest
}

// OneTimeTokenResponse holds a one-time token.
type OneTimeTokenResponse struct {
	OneTimeToken *OneTimeToken `msg:",omitempty"`
	WriteMeta
}

// OneTimeTokenExchangeRequest exchanges a one-time token for the token that it was made with.
type OneTimeTokenExchangeRequest struct {
	OneTimeSecretID string `msg:",omitempty" secret:"hash"`
	WriteRequest    `json:"-"`
}

// ACLPolicyListResponse lists policies.
type ACLPolicyListResponse struct {
	Policies []*ACLPolicy `msg:",omitempty"`
	QueryMeta
}

// ACLPolicyResponse holds one policy; nil when it does not exist.
type ACLPolicyResponse struct {
	Policy *ACLPolicy `msg:",omitempty"`
	QueryMeta
}

// ACLPolicyUpsertRequest creates or updates policies.
type ACLPolicyUpsertRequest struct {
	Policies []*ACLPolicy `msg:",omitempty"`
	WriteRequest
}

// ACLRoleRequest names a role by its id or by its name.
type ACLRoleRequest struct {
	ID   string `msg:",omitempty"`
	Name string `msg:",omitempty"`
	QueryOptions
}

// ACLRoleResponse holds one role; nil when it does not exist.
type ACLRoleResponse struct {
	Role *ACLRole `msg:",omitempty"`
	QueryMeta
}

// ACLRoleListResponse lists roles.
type ACLRoleListResponse struct {
	Roles []*ACLRole `msg:",omitempty"`
	QueryMeta
}

// ACLRoleUpsertRequest creates or updates a role.
type ACLRoleUpsertRequest struct {
	Role *ACLRole `msg:",omitempty"`
	WriteRequest
}

// ACLRoleWriteResponse holds the role as it was stored.
type ACLRoleWriteResponse struct {
	Role *ACLRole `msg:",omitempty"`
	WriteMeta
}

// ACLAuthMethodListResponse lists auth methods.
type ACLAuthMethodListResponse struct {
	Methods []*ACLAuthMethod `msg:",omitempty"`
	QueryMeta
}

// ACLAuthMethodResponse holds one auth method; nil when it does not exist.
type ACLAuthMethodResponse struct {
	Method *ACLAuthMethod `msg:",omitempty"`
	QueryMeta
}

// ACLAuthMethodUpsertRequest creates or updates an auth method.
type ACLAuthMethodUpsertRequest struct {
	Method *ACLAuthMethod `msg:",omitempty"`
	WriteRequest
}

// ACLAuthMethodWriteResponse holds the auth method as it was stored.
type ACLAuthMethodWriteResponse struct {
	Method *ACLAuthMethod `msg:",omitempty"`
	WriteMeta
}

// ACLBindingRuleListResponse lists binding rules.
type ACLBindingRuleListResponse struct {
	Rules []*ACLBindingRule `msg:",omitempty"`
	QueryMeta
}

// ACLBindingRuleResponse holds one binding rule; nil when it does not exist.
type ACLBindingRuleResponse struct {
	Rule *ACLBindingRule `msg:",omitempty"`
	QueryMeta
}

// ACLBindingRuleUpsertRequest creates or updates a binding rule.
type ACLBindingRuleUpsertRequest struct {
	Rule *ACLBindingRule `msg:",omitempty"`
	WriteRequest
}

// ACLBindingRuleWriteResponse holds the binding rule as it was stored.
type ACLBindingRuleWriteResponse struct {
	Rule *ACLBindingRule `msg:",omitempty"`
	WriteMeta
}

// ACLLoginRequest exchanges a JWT of another system for a token.
type ACLLoginRequest struct {
	AuthMethodName string `msg:",omitempty"`
	LoginToken     string `msg:",omitempty" secret:"true"`
	WriteRequest   `json:"-"`
}

// ACLOIDCAuthURLRequest begins a login at an identity provider.
type ACLOIDCAuthURLRequest struct {
	AuthMethodName string `msg:",omitempty"`
	RedirectURI    string `msg:",omitempty"`
	ClientNonce    string `msg:",omitempty" secret:"true"`
	WriteRequest   `json:"-"`
}

// ACLOIDCAuthURLResponse holds the page of the identity provider to send the user to.
type ACLOIDCAuthURLResponse struct {
	AuthURL string `msg:",omitempty"`
}

// ACLOIDCCompleteAuthRequest ends a login at an identity provider.
type ACLOIDCCompleteAuthRequest struct {
	AuthMethodName string `msg:",omitempty"`
	ClientNonce    string `msg:",omitempty" secret:"true"`
	State          string `msg:",omitempty" secret:"true"`
	Code           string `msg:",omitempty" secret:"true"`
	Iss            string `msg:",omitempty"`
	RedirectURI    string `msg:",omitempty"`
	WriteRequest   `json:"-"`
}

// ACLCheckRequest asks whether the caller's token permits a right. Agents ask it for what they answer themselves.
type ACLCheckRequest struct {
	// Right is what is asked for. A zero right asks only that the caller has a valid token or a workload identity; that is
	// checked without access control too, and a caller without either is refused.
	Right Right
	// Name is the namespace, node pool or host volume; empty for rights on single objects.
	Name string `msg:",omitempty"`
	// AllocID asks for the right in the namespace of an allocation.
	AllocID string `msg:",omitempty"`
	QueryOptions
}

// ACLCheckResponse names the token that permits the right.
type ACLCheckResponse struct {
	AccessorID string `msg:",omitempty"`
	QueryMeta
}

// ACLExplainRequest asks which rule permits or refuses a right to the caller's token, or to another one.
type ACLExplainRequest struct {
	// AccessorID is the token; empty is the caller's own.
	AccessorID string `msg:",omitempty"`
	Right      Right
	Name       string `msg:",omitempty"`
	QueryOptions
}

// ACLExplainResponse is the verdict on a right.
type ACLExplainResponse struct {
	AccessorID string  `msg:",omitempty"`
	Verdict    Verdict `msg:",omitempty"`
	QueryMeta
}
