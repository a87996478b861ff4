package api

//msgp:ignore ACLAuthMethodListStub ACLBindingRuleListStub

import "time"

// Values of an auth method and of a binding rule.
const (
	AuthMethodJWT  = "JWT"
	AuthMethodOIDC = "OIDC"

	TokenLocalityLocal  = "local"
	TokenLocalityGlobal = "global"

	// BindTypePolicy binds to the policy of the name.
	BindTypePolicy = "policy"
	// BindTypeRole binds to the role of the name.
	BindTypeRole = "role"
	// BindTypeManagement makes a management token.
	BindTypeManagement = "management"

	// DefaultTokenNameFormat is the name of tokens that logins make.
	DefaultTokenNameFormat = "${auth_method_type}-${auth_method_name}" //nolint:gosec // a format, not a secret
)

// ACLAuthMethod is a way to log in with an identity of another system.
type ACLAuthMethod struct {
	Name string `msg:",omitempty"`
	// Type is [AuthMethodJWT] or [AuthMethodOIDC].
	Type            string               `msg:",omitempty"`
	TokenLocality   string               `msg:",omitempty"`
	TokenNameFormat string               `msg:",omitempty"`
	MaxTokenTTL     time.Duration        `msg:",omitempty"`
	Default         bool                 `msg:",omitempty"`
	Config          *ACLAuthMethodConfig `msg:",omitempty"`
	Hash            []byte               `msg:",omitempty"`
	CreateTime      time.Time            `msg:",omitempty"`
	ModifyTime      time.Time            `msg:",omitempty"`
	CreateIndex     uint64               `msg:",omitempty"`
	ModifyIndex     uint64               `msg:",omitempty"`
}

// ACLAuthMethodConfig is the configuration of an auth method.
type ACLAuthMethodConfig struct {
	JWTValidationPubKeys []string             `msg:",omitempty"`
	JWKSURL              string               `msg:",omitempty"`
	OIDCDiscoveryURL     string               `msg:",omitempty"`
	OIDCClientID         string               `msg:",omitempty"`
	OIDCClientSecret     string               `msg:",omitempty" secret:"true"`
	OIDCClientAssertion  *OIDCClientAssertion `msg:",omitempty"`
	OIDCEnablePKCE       bool                 `msg:",omitempty"`
	OIDCDisableUserInfo  bool                 `msg:",omitempty"`
	OIDCScopes           []string             `msg:",omitempty"`
	BoundAudiences       []string             `msg:",omitempty"`
	BoundIssuer          []string             `msg:",omitempty"`
	AllowedRedirectURIs  []string             `msg:",omitempty"`
	DiscoveryCaPem       []string             `msg:",omitempty"`
	JWKSCACert           string               `msg:",omitempty"`
	SigningAlgs          []string             `msg:",omitempty"`
	ExpirationLeeway     time.Duration        `msg:",omitempty"`
	NotBeforeLeeway      time.Duration        `msg:",omitempty"`
	ClockSkewLeeway      time.Duration        `msg:",omitempty"`
	ClaimMappings        map[string]string    `msg:",omitempty"`
	ListClaimMappings    map[string]string    `msg:",omitempty"`
	VerboseLogging       bool                 `msg:",omitempty"`
}

// OIDCClientAssertion authenticates this cluster at an identity provider with a signed JWT in place of a secret.
type OIDCClientAssertion struct {
	Audience     []string                `msg:",omitempty"`
	KeySource    string                  `msg:",omitempty"`
	KeyAlgorithm string                  `msg:",omitempty"`
	PrivateKey   *OIDCClientAssertionKey `msg:",omitempty"`
	ExtraHeaders map[string]string       `msg:",omitempty"`
}

// OIDCClientAssertionKey is the key that signs client assertions.
type OIDCClientAssertionKey struct {
	PemKey      string `msg:",omitempty" secret:"true"`
	PemKeyFile  string `msg:",omitempty"`
	KeyIDHeader string `msg:",omitempty"`
	KeyID       string `msg:",omitempty"`
	PemCert     string `msg:",omitempty"`
	PemCertFile string `msg:",omitempty"`
}

// ACLAuthMethodListStub is what lists show of an auth method.
type ACLAuthMethodListStub struct {
	Name        string
	Type        string
	Default     bool
	Hash        []byte
	CreateIndex uint64
	ModifyIndex uint64
}

// Stub returns what lists show of the auth method.
func (m *ACLAuthMethod) Stub() *ACLAuthMethodListStub {
	return &ACLAuthMethodListStub{Name: m.Name, Type: m.Type, Default: m.Default, Hash: m.Hash, CreateIndex: m.CreateIndex, ModifyIndex: m.ModifyIndex}
}

// ACLBindingRule maps the claims of a login to a policy, a role or management rights.
type ACLBindingRule struct {
	ID          string `msg:",omitempty"`
	Description string `msg:",omitempty"`
	AuthMethod  string `msg:",omitempty"`
	// Selector is a go-bexpr expression over the mapped claims (value.NAME and list.NAME); empty selects all logins.
	Selector string `msg:",omitempty"`
	BindType string `msg:",omitempty"`
	// BindName may contain ${value.NAME}.
	BindName    string    `msg:",omitempty"`
	Hash        []byte    `msg:",omitempty"`
	CreateTime  time.Time `msg:",omitempty"`
	ModifyTime  time.Time `msg:",omitempty"`
	CreateIndex uint64    `msg:",omitempty"`
	ModifyIndex uint64    `msg:",omitempty"`
}

// ACLBindingRuleListStub is what lists show of a binding rule.
type ACLBindingRuleListStub struct {
	ID          string
	Description string
	AuthMethod  string
	Hash        []byte
	CreateIndex uint64
	ModifyIndex uint64
}

// Stub returns what lists show of the binding rule.
func (r *ACLBindingRule) Stub() *ACLBindingRuleListStub {
	return &ACLBindingRuleListStub{ID: r.ID, Description: r.Description, AuthMethod: r.AuthMethod, Hash: r.Hash, CreateIndex: r.CreateIndex, ModifyIndex: r.ModifyIndex}
}
