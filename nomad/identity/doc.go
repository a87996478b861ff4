// Package identity signs and verifies the JSON Web Tokens of the cluster: the identities of workloads and of nodes, and the
// tokens that introduce nodes. It serves the methods of them that belong to no other service.
//
// A token is signed with the active root key, either with its Ed25519 key or with its RSA key. The header names the key:
// kid is the id of the root key for RS256, and the id with "-ed25519" for EdDSA.
//
// Invariants:
//   - A token is accepted for one audience only, and only with the claims that such a token has.
//   - The algorithm is decided by the key that kid names. A token whose header has another algorithm is refused.
//   - Any root key of the state verifies; a token of a removed key is refused.
//   - Extra claims never replace a claim that this package sets.
//   - No token and no private key is logged, stored or part of an error.
//
// The claim nbf is set for third parties and never compared here, because the clocks of servers differ.
package identity
