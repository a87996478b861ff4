package wire

import "github.com/open-nomad/open-nomad/api"

// Methods of ACL.
var (
	// ACLBootstrap creates the first management token.
	ACLBootstrap = Method[api.ACLBootstrapRequest, api.ACLTokenWriteResponse]{"ACL.Bootstrap", Leader, ByUser, open}
	// ACLWhoAmI reads the token of the caller.
	ACLWhoAmI = Method[api.QueryOptions, api.ACLTokenResponse]{"ACL.WhoAmI", Any, ByUser, judged}
	// ACLCheck asks whether the caller's token permits a right.
	ACLCheck = Method[api.ACLCheckRequest, api.ACLCheckResponse]{"ACL.Check", Any, ByUser, judged}
	// ACLExplain returns the rule that permits or refuses a right.
	ACLExplain = Method[api.ACLExplainRequest, api.ACLExplainResponse]{"ACL.Explain", Any, ByUser, judged}
	// ACLTokenList lists tokens.
	ACLTokenList = Method[api.ACLTokenListRequest, api.ACLTokenListResponse]{"ACL.ListTokens", Any, ByUser, management}
	// ACLTokenGet reads one token.
	ACLTokenGet = Method[api.ACLTokenRequest, api.ACLTokenResponse]{"ACL.GetToken", Any, ByUser, judged}
	// ACLTokenUpsert creates or updates a token.
	ACLTokenUpsert = Method[api.ACLTokenUpsertRequest, api.ACLTokenWriteResponse]{"ACL.UpsertTokens", Leader, ByUser, management}
	// ACLTokenDelete deletes tokens.
	ACLTokenDelete = Method[api.ACLTokenDeleteRequest, api.WriteMeta]{"ACL.DeleteTokens", Leader, ByUser, management}
	// ACLOneTimeToken makes a one-time token.
	ACLOneTimeToken = Method[api.OneTimeTokenRequest, api.OneTimeTokenResponse]{"ACL.UpsertOneTimeToken", Leader, ByUser, anyToken}
	// ACLOneTimeExchange exchanges a one-time token.
	ACLOneTimeExchange = Method[api.OneTimeTokenExchangeRequest, api.ACLTokenWriteResponse]{"ACL.ExchangeOneTimeToken", Leader, ByUser, open}
	// ACLPolicyList lists policies.
	ACLPolicyList = Method[api.QueryOptions, api.ACLPolicyListResponse]{"ACL.ListPolicies", Any, ByUser, judged}
	// ACLPolicyGet reads one policy.
	ACLPolicyGet = Method[api.NameRequest, api.ACLPolicyResponse]{"ACL.GetPolicy", Any, ByUser, judged}
	// ACLPolicyUpsert creates or updates policies.
	ACLPolicyUpsert = Method[api.ACLPolicyUpsertRequest, api.WriteMeta]{"ACL.UpsertPolicies", Leader, ByUser, management}
	// ACLPolicyDelete deletes a policy.
	ACLPolicyDelete = Method[api.NameWriteRequest, api.WriteMeta]{"ACL.DeletePolicies", Leader, ByUser, management}
	// ACLRoleList lists roles.
	ACLRoleList = Method[api.QueryOptions, api.ACLRoleListResponse]{"ACL.ListRoles", Any, ByUser, judged}
	// ACLRoleGet reads one role by its id or its name.
	ACLRoleGet = Method[api.ACLRoleRequest, api.ACLRoleResponse]{"ACL.GetRole", Any, ByUser, judged}
	// ACLRoleUpsert creates or updates a role.
	ACLRoleUpsert = Method[api.ACLRoleUpsertRequest, api.ACLRoleWriteResponse]{"ACL.UpsertRoles", Leader, ByUser, management}
	// ACLRoleDelete deletes a role by its id.
	ACLRoleDelete = Method[api.NameWriteRequest, api.WriteMeta]{"ACL.DeleteRolesByID", Leader, ByUser, management}
	// ACLAuthMethodList lists auth methods; login pages need them before there is a token.
	ACLAuthMethodList = Method[api.QueryOptions, api.ACLAuthMethodListResponse]{"ACL.ListAuthMethods", Any, ByUser, open}
	// ACLAuthMethodGet reads one auth method.
	ACLAuthMethodGet = Method[api.NameRequest, api.ACLAuthMethodResponse]{"ACL.GetAuthMethod", Any, ByUser, management}
	// ACLAuthMethodUpsert creates or updates an auth method.
	ACLAuthMethodUpsert = Method[api.ACLAuthMethodUpsertRequest, api.ACLAuthMethodWriteResponse]{"ACL.UpsertAuthMethods", Leader, ByUser, management}
	// ACLAuthMethodDelete deletes an auth method.
	ACLAuthMethodDelete = Method[api.NameWriteRequest, api.WriteMeta]{"ACL.DeleteAuthMethods", Leader, ByUser, management}
	// ACLBindingRuleList lists binding rules.
	ACLBindingRuleList = Method[api.QueryOptions, api.ACLBindingRuleListResponse]{"ACL.ListBindingRules", Any, ByUser, management}
	// ACLBindingRuleGet reads one binding rule by its id.
	ACLBindingRuleGet = Method[api.NameRequest, api.ACLBindingRuleResponse]{"ACL.GetBindingRule", Any, ByUser, management}
	// ACLBindingRuleUpsert creates or updates a binding rule.
	ACLBindingRuleUpsert = Method[api.ACLBindingRuleUpsertRequest, api.ACLBindingRuleWriteResponse]{"ACL.UpsertBindingRules", Leader, ByUser, management}
	// ACLBindingRuleDelete deletes a binding rule by its id.
	ACLBindingRuleDelete = Method[api.NameWriteRequest, api.WriteMeta]{"ACL.DeleteBindingRules", Leader, ByUser, management}
	// ACLIntroduceNode makes a token that introduces a new node.
	ACLIntroduceNode = Method[api.NodeIntroductionRequest, api.NodeIntroductionResponse]{"ACL.CreateClientIntroductionToken", Leader, ByUser, nodeWrite}
	// ACLLogin exchanges a JWT for a token.
	ACLLogin = Method[api.ACLLoginRequest, api.ACLTokenWriteResponse]{"ACL.Login", Leader, ByUser, open}
	// ACLOIDCAuthURL begins a login at an identity provider.
	ACLOIDCAuthURL = Method[api.ACLOIDCAuthURLRequest, api.ACLOIDCAuthURLResponse]{"ACL.OIDCAuthURL", Leader, ByUser, open}
	// ACLOIDCCompleteAuth ends a login at an identity provider.
	ACLOIDCCompleteAuth = Method[api.ACLOIDCCompleteAuthRequest, api.ACLTokenWriteResponse]{"ACL.OIDCCompleteAuth", Leader, ByUser, open}
)

// Methods of Quota.
var (
	// QuotaList lists quotas.
	QuotaList = Method[api.QueryOptions, api.QuotaListResponse]{"Quota.List", Any, ByUser, on(api.OnQuota, "read")}
	// QuotaGet reads one quota.
	QuotaGet = Method[api.NameRequest, api.QuotaResponse]{"Quota.Get", Any, ByUser, on(api.OnQuota, "read")}
	// QuotaUsages lists what quotas use.
	QuotaUsages = Method[api.QueryOptions, api.QuotaUsageListResponse]{"Quota.Usages", Any, ByUser, on(api.OnQuota, "read")}
	// QuotaUsage reads what one quota uses.
	QuotaUsage = Method[api.NameRequest, api.QuotaUsageResponse]{"Quota.Usage", Any, ByUser, on(api.OnQuota, "read")}
	// QuotaUpsert creates or updates a quota.
	QuotaUpsert = Method[api.QuotaUpsertRequest, api.WriteMeta]{"Quota.Upsert", Leader, ByUser, on(api.OnQuota, "write")}
	// QuotaDelete deletes a quota that no namespace names.
	QuotaDelete = Method[api.NameWriteRequest, api.WriteMeta]{"Quota.Delete", Leader, ByUser, on(api.OnQuota, "write")}
)

// Methods of Variables. What a caller may do depends on the path, which the service compares.
var (
	// VariableList lists variables by namespace and path.
	VariableList = Method[api.QueryOptions, api.VariableListResponse]{"Variables.List", Any, ByUser, judged}
	// VariableGet reads one variable.
	VariableGet = Method[api.VariableRequest, api.VariableResponse]{"Variables.Read", Any, ByUser, judged}
	// VariableApply changes a variable.
	VariableApply = Method[api.VariableApplyRequest, api.VariableApplyResponse]{"Variables.Apply", Leader, ByUser, judged}
	// VariableRenew renews a lock.
	VariableRenew = Method[api.VariableRenewRequest, api.VariableRenewResponse]{"Variables.RenewLock", Leader, ByUser, judged}
)
