// Package claim is the state machine of volume claims and attachments: which transitions are legal, what follows
// automatically, and who may have a volume. It is pure; package nomad/volumes/ledger feeds it the rows of a
// transaction and writes back what it returns.
//
// A claim is one use of one volume by an allocation, an attachment the controller's connection of one
// external volume to one node. Absence of a row is the first and the last state of both.
//
//	            predecessor removed       attached              stop or end of the allocation
//	waiting ───────────────────▶ taken ───────────▶ ready ─────────────────────────▶ releasing
//	   │ allocation ended          │ ended           │ node's report                   │ node's report, or
//	   ▼                           ▼ before mount    ▼                                 ▼ node lost and proven off
//	(no row) ◀────────────────────────────────── unmounted ◀──────────────────────────┘
//	             detached, or another live claim keeps the node
//
//	         first live claim            publish succeeded
//	(no row) ───────────────▶ publishing ───────────────▶ published
//	   ▲                          │ no live claim              │ last live claim removed
//	   │ unpublish succeeded      ▼                            │
//	   └───────────────────── unpublishing ◀───────────────────┘
//
// Live claims (taken, ready, releasing) keep their node attached. Moves from outside are checked by
// [Legal]; [Settle] computes all others, so that states, intents and consequences are in one raft
// entry. [Fits] is the one rule of capacity: the scheduler, plan apply and the ledger ask it.
//
// Invariants:
//   - Two claims that exclude each other are never both past waiting, except that one which is
//     unmounted yields to another on its own node.
//   - A claim with Attach is ready or releasing only while its node's attachment is published, and becomes ready
//     only by one that was published for what it needs.
//   - An attachment has a claim on its node.
//   - Settle changes nothing when it is applied to its own result.
package claim
