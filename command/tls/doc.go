// Package tls has the verbs of "nomad tls": they make and show the certificate authority of a
// cluster and the certificates of its agents and users. They work on files only and ask no agent.
//
// Invariants:
//   - No existing file is ever overwritten.
//   - Keys are readable by their owner only.
//   - A certificate carries its role in its DNS name, as package wire reads it.
package tls
