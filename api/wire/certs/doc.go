// Package certs is the TLS identity of an agent and how it verifies its peers. A [Reloadable] makes the TLS mutual: each end
// verifies the other's chain, and its [Role] where names are to be verified. [SelfMade] encrypts only.
package certs
