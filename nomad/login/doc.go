// Package login is the service of logins with identities of other systems: auth methods, binding rules, and the tokens that
// logins get. It alone writes auth methods and binding rules.
//
// A login runs on the leader. [provider.Providers] verifies the identity, [claims.Claims.Bind] decides what it gets, and one
// command of the raft log stores the token. A login that fails writes nothing.
//
// A login at an OIDC provider has two requests. The random values of the first travel to the second in the state, which is
// encrypted with a key of this process: logins that begin and never end take no memory, and a flood of them displaces no other.
// The state is bound to the auth method as it is, the redirect URI and the nonce of the client, is valid for ten minutes, and is
// used once, whatever the provider answers. When another server becomes the leader the user begins again.
//
// Logins of one auth method have a limited number of slots, so that a provider that hangs delays its own users only.
package login
