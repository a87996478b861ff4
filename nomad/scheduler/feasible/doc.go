// Package feasible determines whether a node may run a group, regardless of its free capacity:
// drivers, constraints, devices, networks, host volumes, CSI volumes. Every refusal is a sentence that users read.
//
// [Static] holds for a whole evaluation: it looks at the node only and remembers the answer of each
// constraint per value. [Volumes] depends on claims and on what the plan did so far.
package feasible
