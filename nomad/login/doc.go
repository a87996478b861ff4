// Package login is the service of logins with identities of other systems: auth methods, binding rules, and the tokens that
// logins get. It alone writes auth methods and binding rules.
//
// A login runs on the leader. [provider.Providers] verifies the identity, [claims.Claims.Bind] decides what it gets, and one
// command of the raft log stores the token. A login that fails writes nothing.
//
// A login at an OIDC provider has two requests. Between them the leader keeps the random values of the first in memory, for ten
// minutes and for a limited number of logins, the oldest of which give way. They are used once: after a request with its state,
// successful or not, the login is forgotten. When another server becomes the leader the user begins again.
//
// Logins of one auth method have a limited number of slots, so that a provider that hangs delays its own users only.
package login
