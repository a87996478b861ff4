// Package rank says how good a feasible node is, and finds the best of many.
//
// The score of a node is the mean of its parts: fit (bin packing or spreading out) always, and anti-affinity,
// penalty, affinity and spread when they say something. [Board] keeps all feasible nodes in heaps, so
// that after a placement only the nodes that it touched are scored again: a placement costs
// log(nodes), however many are placed and wherever. Nothing is sampled.
//
// A board has one heap per (spread values, number of parts): within a heap the order of sums is the
// order of means, and what a spread adds is the same for all of it.
package rank
