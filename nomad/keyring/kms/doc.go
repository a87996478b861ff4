// Package kms encrypts the wrapping keys of root keys with services outside of the cluster, through the libraries of
// github.com/hashicorp/go-kms-wrapping. A service that is away keeps no server from starting: it is connected to when it is needed.
package kms
