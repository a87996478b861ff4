// Package fleet is the table of nodes as placement sees it: what each node has, what is used of it,
// which ports, cores and devices are taken. It keeps running sums, so the cost of looking at a node does not depend on
// how many allocations it holds.
//
// A [Fleet] is immutable. An [Edit] makes the next one and shares all rows that did not change; the
// same edit serves as the overlay in which one evaluation or one plan tries its placements.
//
// Invariants:
//   - Row.Used is the sum of Row.Loads(); every port of a load is in the set of its address, every core and
//     device among those that are not free. A load on an address that the node lost counts on all addresses.
//   - An allocation counts until its node says that it ended (client-terminal): stopping frees nothing.
//   - The index of a node never changes while the node exists; a freed index is used again.
package fleet
