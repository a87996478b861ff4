// Package keyring keeps the root keys of the cluster: what signs its tokens and encrypts its data. It alone
// writes them. The rows hold the public half and the wrapped secret half; what unwraps that lies in the
// keystore directory of each server and never in the log. See DESIGN.md.
package keyring
