// Package events turns committed raft commands into the event stream.
//
// [Buffer.Applied] receives the changes of each command in the order of the log. The buffer keeps the changes of the newest
// indexes and nothing else: events are built and encoded when the first subscriber reads them, once for all subscribers;
// subscribers with equal filters and rights at the same cursor share a response. So
// a server without subscribers pays for one append per command.
//
// A subscription is a sequence of unary calls with a cursor, as everything else that is followed. The cursor is a raft index,
// so another server of the region can continue it. New events become readable every [gather], for all subscribers at once,
// which bounds how often these wake; each call is admitted again, so a deleted or expired token ends the subscription.
//
// Invariants:
//   - Each subscriber receives the events of an index once, and indexes in order.
//   - A subscriber that falls behind the buffer, or whose server restores a snapshot, receives an error and no gap.
//   - An event contains what the HTTP API shows of the object, without secrets.
package events
