// Package kms encrypts the wrapping keys of root keys with services outside of the cluster.
//
// The libraries of the services run in a program of their own, nomad-kms, which this package carries; its source is a module
// of its own in the directory nomad-kms. So nomad links none of them, and most servers, which have no such service, never load
// them. A [Service] has one process of it from its first call on. Requests and replies, one at a time, pass through pipes:
//
//	agent                       nomad-kms
//	provider, configuration ->
//	key to encrypt, timeout ->  connects once, calls the service
//	                        <-  encrypted key or error
//
// A service that is away keeps no server from starting: it is connected to when it is needed. The process stays, because the
// library of Vault renews its token in the background. A process that ends or sends no reply is started again by the next call.
package kms
