// Package decide determines the next step of the node for one use of a volume. It is pure: package client/volumes observes
// records and mounts, asks for the next step, executes it, and observes again.
//
//	Wanted, Seen ──► [Mount]   ──► one [Action] with its reason
//	Reply        ──► [Reply.Removed] ──► one [Removal]
//
// Each decision is a table. The first row that applies decides, so the order of the rows is the order of the steps.
//
// Invariants of [Mount], for all that may be seen:
//
//   - Nothing is staged or published before the record of the use is durable, or under a claim that may be of others.
//   - A staging that another use of the volume may have is not unstaged, nor is one below a mount of this use.
//   - After a bounded number of steps the use is mounted or refused.
//   - A use that is mounted as wanted needs no call of the plugin but NodePublish, which may be repeated.
//
// Invariants of [Reply.Removed]: what is still there is never taken for removed, and the node unmounts only what it may.
package decide
