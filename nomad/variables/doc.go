// Package variables keeps variables: small secrets of users, encrypted with the root key of the cluster before they are
// proposed, and locks on them. The log and snapshots hold no item in clear. Apply decides comparisons of indexes and locks;
// the leader decides when a lock expires.
package variables
