// Package feasible answers whether a node may run a group at all, apart from what is used of it:
// drivers, constraints, devices, networks, host volumes, CSI volumes. Every refusal is a sentence that users read.
//
// [Static] holds for a whole evaluation: it looks at the node only and remembers the answer of each
// constraint per value. [Volumes] depends on claims and on what the plan did so far.
package feasible
