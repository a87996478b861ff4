// Package cluster plays a whole cluster in virtual time: the real services of three servers over an in-memory
// log, links that delay, drop and repeat, nodes and hosts of controllers with the real service of volumes over a
// kernel and a disk in memory, and storage.
//
// It holds tests only. `go test ./nomad/sim/cluster` plays some seeds and every planted bug;
// `go test ./nomad/sim/cluster -run Simulation -seed N -v` tells the story of one seed.
//
// Invariants, asserted whenever something changes: see DESIGN.md of package sim. What happens is decided
// by dice that are thrown per place and occasion, so that the order in which goroutines run does not
// change a story.
//
// Everything shared is guarded by World.mu; services are never called with it held.
package cluster
