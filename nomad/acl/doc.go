// Package acl keeps the tokens of access control, the policies and roles that say what tokens permit, and one-time tokens.
//
// Bootstrap creates the first management token, once. All other writes need a management token, which package access
// checks before a method is called. What a read returns to other callers depends on their own token.
//
// A name of a policy or a role that does not exist permits nothing: policies and roles can be deleted while tokens name
// them.
package acl
