// Package faults measures how volumes behave when things break: one server and a few nodes with
// networks of their own, one driver with attach bookkeeping that all nodes share, and a proxy before
// the driver that makes calls fail, hang, wait or lose their answers.
//
// Each test is one scenario. It ends with the facts: claims, mounts, attachments, processes, data and
// what the driver saw against the rules. Its figures go into a table; see make e2e.
//
// Some scenarios repeat themselves, in the normal run a few times. Environment variables say how often:
// KILLS is how often the server is killed inside calls, ROUNDS how often nodes are cut off in each mode,
// RACES how often two jobs race for a volume.
package faults
