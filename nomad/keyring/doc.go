// Package keyring keeps the root keys of the cluster, which sign tokens and encrypt data. It alone writes them. The rows contain the
// public halves in clear and the secret halves encrypted; the keys that decrypt those are in files of each server or with external
// services, and never in clear in the log. See DESIGN.md.
package keyring
