// Package broker hands evaluations to workers, on the leader and in memory only: after a change of
// leader everything in it is found again in the state.
//
// [Broker]: per kind of job a queue by priority; of one job at most one evaluation is ready or out at
// a time. A delivery carries a token and ends by Ack, by Nack, or by the nack timeout; after too many
// deliveries an evaluation fails. When an evaluation is acked, the best of those that waited for
// it follows and the others are cancelled: it sees everything that they were made for.
//
//	delayed -> waiting (for another of its job) -> ready -> out -> acked
//	   ^                                           ^        |
//	   +---- WaitUntil in the future               +-- nack +-> failed after DeliveryLimit
//
// [Blocked]: evaluations that could not place everything, filed under what would help them: a class of
// nodes, one node, a volume, a plugin. An event that is newer than the snapshot of an evaluation wakes
// it at once when it is filed, so no wake-up is lost between the two.
package broker
