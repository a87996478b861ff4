// Package acl has the HTTP endpoints of tokens, policies and roles.
package acl
