// Package e2e runs the real binary: real agents, real plugins, real mounts, real processes. The
// tests talk to it through the official Go SDK, to prove that a real client works.
//
// They need root and the path of the binary in NOMAD_BIN; make e2e provides both.
package e2e
