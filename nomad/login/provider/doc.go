// Package provider verifies identities of other systems: JWTs against fixed keys, a key set or the keys of an OIDC provider,
// and the logins of users at an OIDC provider.
//
// Whatever comes from outside is bounded: tokens, keys, the replies of a provider in size and in time. Key sets and discovery
// documents are kept for an hour. A key id that a kept set does not have is looked for at the provider at most every few
// seconds, so that tokens with invented key ids cause no load there; failures are kept for the same time.
//
// Only asymmetric algorithms are accepted, and a key verifies the algorithms of its own kind only. A key set's symmetric keys
// are ignored. So no token can choose an algorithm that turns a public key into a shared secret.
package provider
