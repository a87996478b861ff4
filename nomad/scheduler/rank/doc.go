// Package rank scores feasible nodes and finds the best one.
//
// The score of a node is the mean of its parts: fit (bin packing or spreading out) always, and anti-affinity,
// penalty, affinity and spread where they apply. [Queue] keeps all feasible nodes in heaps, so that after a
// placement only the nodes that it touched are scored again: a placement costs log(nodes). Nodes are not sampled.
//
// A queue has one heap per (spread values, number of parts): within a heap the order of sums is the order of means, and
// the spread boost is equal for all entries.
package rank
