// Package claim is the machine of volume claims: which moves are legal, what follows by itself, and
// whether one more claim fits. It is pure; package ledger applies it inside raft commands.
//
//	             take                       attached (by itself)
//	 (no row) ─────────► taken ──────────────────────────► ready
//	    │                  ▲ │                              │ │
//	    │ take, holder     │ │ ended before mounting        │ │ allocation ended
//	    │ is being stopped │ │                              │ ▼
//	    └────► waiting ────┘ │             node's report    │ releasing
//	      (by itself, FIFO)  │        ┌─────────────────────┘    │
//	                         ▼        ▼      node's report, fence│
//	                      unmounted ◄────────────────────────────┘
//	                         │ detached, or another claim keeps the node (by itself)
//	                         ▼
//	                      (no row)
//
//	attachment:  (no row) ─► publishing ─► published ─► unpublishing ─► (no row)
//	                             └── nobody wants it any more ──▲
//
// Invariants, kept by [Settle] and checked by [Check]:
//   - never two writers on an exclusive volume, counting every claim but waiting ones;
//   - a ready claim of a volume that needs attaching has a published attachment on its node;
//   - an attachment with a live claim (taken, ready, releasing) is never unpublishing unless the
//     claim is taken and waits for the detach to end;
//   - settling twice changes nothing.
package claim
