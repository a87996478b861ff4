// Package acl keeps the tokens of access control, the policies and roles that say what tokens permit, and one-time tokens.
//
// Bootstrap creates the first management token, once. All other writes need a management token, which package access
// checks before a method is called. What a read returns to other callers depends on their own token.
//
// Policies, roles, auth methods, binding rules and global tokens are written in the authoritative region. The other regions
// forward such writes, and their leaders copy what changes there ([Service.Replicate]). Local tokens stay in their region.
//
// A name of a policy or a role that does not exist permits nothing: policies and roles can be deleted while tokens name
// them.
package acl
