package state

import (
	"crypto/sha256"
	"encoding/hex"
	"iter"

	"github.com/open-nomad/open-nomad/api"
)

// jobOfPolicy is the job that the policy is attached to.
func jobOfPolicy(p *api.ACLPolicy) []string {
	if p.JobACL == nil {
		return nil
	}
	return []string{rowKey(p.JobACL.Namespace, p.JobACL.JobID)}
}

// ACLTokenKey is a token by its accessor.
func ACLTokenKey(accessor string) Key { return Key{TableACLTokens, "id", accessor} }

// ACLPolicyKey is a policy.
func ACLPolicyKey(name string) Key { return Key{TableACLPolicies, "id", name} }

// ACLRoleKey is a role by its id.
func ACLRoleKey(id string) Key { return Key{TableACLRoles, "id", id} }

// ACLRoleNameKey is a role by its name.
func ACLRoleNameKey(name string) Key { return Key{TableACLRoles, "name", name} }

// ACLToken returns the token with the accessor, or nil.
func (t *Txn) ACLToken(accessor string) *api.ACLToken { return aclTokens.get(t, accessor) }

// ACLTokenBySecret returns the token with the secret, or nil.
func (t *Txn) ACLTokenBySecret(secret string) *api.ACLToken {
	return t.ACLTokenByHash(SecretHash(secret))
}

// ACLTokenByHash returns the token whose secret has the hash, or nil.
func (t *Txn) ACLTokenByHash(hash string) *api.ACLToken {
	if hash == "" {
		return nil
	}
	return aclTokens.first(t, "secret", hash)
}

// SecretHash is what the state has in the place of a secret that it only compares: its SHA-256 in hex. That of the empty
// secret is empty.
func SecretHash(secret string) string {
	if secret == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// TokenHash is the hash of a token's secret, also of one that an earlier version has written in clear.
func TokenHash(t *api.ACLToken) string {
	if t.SecretHash != "" {
		return t.SecretHash
	}
	return SecretHash(t.SecretID)
}

// ACLTokens lists all tokens by accessor.
func (t *Txn) ACLTokens() iter.Seq[*api.ACLToken] { return aclTokens.all(t) }

// ACLTokenSpan walks tokens by accessor.
func (t *Txn) ACLTokenSpan(s Span) iter.Seq[*api.ACLToken] { return aclTokens.named(t, s) }

// PutACLToken stores the token.
func (t *Txn) PutACLToken(a *api.ACLToken) { aclTokens.put(t, a) }

// DeleteACLToken deletes the token and reports whether there was one.
func (t *Txn) DeleteACLToken(accessor string) bool { return aclTokens.remove(t, t.ACLToken(accessor)) }

// ACLPolicy returns the policy, or nil.
func (t *Txn) ACLPolicy(name string) *api.ACLPolicy { return aclPolicies.get(t, name) }

// ACLPolicies lists all policies by name.
func (t *Txn) ACLPolicies() iter.Seq[*api.ACLPolicy] { return aclPolicies.all(t) }

// ACLPolicySpan walks policies by name.
func (t *Txn) ACLPolicySpan(s Span) iter.Seq[*api.ACLPolicy] { return aclPolicies.named(t, s) }

// ACLPoliciesOfJob lists the policies that are attached to the job, or to a group or a task of it.
func (t *Txn) ACLPoliciesOfJob(ns, job string) iter.Seq[*api.ACLPolicy] {
	return aclPolicies.list(t, "job", rowKey(ns, job))
}

// PutACLPolicy stores the policy.
func (t *Txn) PutACLPolicy(p *api.ACLPolicy) { aclPolicies.put(t, p) }

// DeleteACLPolicy deletes the policy and reports whether there was one.
func (t *Txn) DeleteACLPolicy(name string) bool { return aclPolicies.remove(t, t.ACLPolicy(name)) }

// ACLRole returns the role with the id, or nil.
func (t *Txn) ACLRole(id string) *api.ACLRole { return aclRoles.get(t, id) }

// ACLRoleByName returns the role with the name, or nil.
func (t *Txn) ACLRoleByName(name string) *api.ACLRole { return aclRoles.first(t, "name", name) }

// ACLRoles lists all roles by id.
func (t *Txn) ACLRoles() iter.Seq[*api.ACLRole] { return aclRoles.all(t) }

// ACLRoleSpan walks roles by id.
func (t *Txn) ACLRoleSpan(s Span) iter.Seq[*api.ACLRole] { return aclRoles.named(t, s) }

// PutACLRole stores the role.
func (t *Txn) PutACLRole(r *api.ACLRole) { aclRoles.put(t, r) }

// DeleteACLRole deletes the role and reports whether there was one.
func (t *Txn) DeleteACLRole(id string) bool { return aclRoles.remove(t, t.ACLRole(id)) }

// ACLAuthMethod returns the auth method, or nil.
func (t *Txn) ACLAuthMethod(name string) *api.ACLAuthMethod { return aclAuthMethods.get(t, name) }

// ACLAuthMethods lists all auth methods by name.
func (t *Txn) ACLAuthMethods() iter.Seq[*api.ACLAuthMethod] { return aclAuthMethods.all(t) }

// PutACLAuthMethod stores the auth method.
func (t *Txn) PutACLAuthMethod(m *api.ACLAuthMethod) { aclAuthMethods.put(t, m) }

// DeleteACLAuthMethod deletes the auth method and reports whether there was one.
func (t *Txn) DeleteACLAuthMethod(name string) bool {
	return aclAuthMethods.remove(t, t.ACLAuthMethod(name))
}

// ACLBindingRule returns the binding rule with the id, or nil.
func (t *Txn) ACLBindingRule(id string) *api.ACLBindingRule { return aclBindingRules.get(t, id) }

// ACLBindingRules lists all binding rules by id.
func (t *Txn) ACLBindingRules() iter.Seq[*api.ACLBindingRule] { return aclBindingRules.all(t) }

// ACLBindingRulesOf lists the binding rules of an auth method.
func (t *Txn) ACLBindingRulesOf(method string) iter.Seq[*api.ACLBindingRule] {
	return aclBindingRules.list(t, "method", method)
}

// PutACLBindingRule stores the binding rule.
func (t *Txn) PutACLBindingRule(r *api.ACLBindingRule) { aclBindingRules.put(t, r) }

// DeleteACLBindingRule deletes the binding rule and reports whether there was one.
func (t *Txn) DeleteACLBindingRule(id string) bool {
	return aclBindingRules.remove(t, t.ACLBindingRule(id))
}

// OneTimeToken returns the one-time token whose secret has the hash, or nil.
func (t *Txn) OneTimeToken(hash string) *api.OneTimeToken { return oneTimeTokens.get(t, hash) }

// OneTimeTokens lists all one-time tokens.
func (t *Txn) OneTimeTokens() iter.Seq[*api.OneTimeToken] { return oneTimeTokens.all(t) }

// PutOneTimeToken stores the one-time token, with the hash of its secret in the place of the secret.
func (t *Txn) PutOneTimeToken(o *api.OneTimeToken) { oneTimeTokens.put(t, o) }

// DeleteOneTimeToken deletes the one-time token and reports whether there was one.
func (t *Txn) DeleteOneTimeToken(hash string) bool {
	return oneTimeTokens.remove(t, t.OneTimeToken(hash))
}

// ACLBootstrap returns the index of the last bootstrap; nil before the first.
func (t *Txn) ACLBootstrap() *api.ACLBootstrap { return aclBootstraps.get(t, "bootstrap") }

// PutACLBootstrap records a bootstrap.
func (t *Txn) PutACLBootstrap(b *api.ACLBootstrap) { aclBootstraps.put(t, b) }

// Quota returns the quota, or nil.
func (t *Txn) Quota(name string) *api.QuotaSpec { return quotas.get(t, name) }

// Quotas lists all quotas by name.
func (t *Txn) Quotas() iter.Seq[*api.QuotaSpec] { return quotas.all(t) }

// QuotaSpan walks quotas by name.
func (t *Txn) QuotaSpan(s Span) iter.Seq[*api.QuotaSpec] { return quotas.named(t, s) }

// PutQuota stores the quota.
func (t *Txn) PutQuota(q *api.QuotaSpec) { quotas.put(t, q) }

// DeleteQuota deletes the quota and reports whether there was one.
func (t *Txn) DeleteQuota(name string) bool { return quotas.remove(t, t.Quota(name)) }
