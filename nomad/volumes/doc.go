// Package volumes is the room of CSI volumes, their claims and attachments, and of CSI plugins.
//
// Who writes what: this room all of [api.Volume]; package ledger claims and attachments, inside this
// room's commands and those of plans, allocations and nodes. Plugins are never stored: they are
// counted from the nodes' fingerprints and from jobs whenever they are read.
//
// A volume's provisioning:
//
//	            create            driver: yes              larger capacity
//	(no row) ───────────▶ creating ──────────▶ available ──────────────────▶ expanding
//	   ▲                     │ driver: never       ▲  │ ▲                          │
//	   │                     ▼                     │  │ └──────────────────────────┘ answered
//	   │                  failed      register ────┘  │ delete, nobody claims it
//	   │                     │                        ▼
//	   └─────────────────────┴──────────────────── deleting
//	                              driver: yes
//
// Every call to a driver follows an intent that is in the log, is repeated until the driver answers,
// and its answer is refused when the intent was replaced meanwhile (compare and set on the intent's
// raft index). What a user says of a volume and what the driver said of it are apart, so that neither
// wipes the other, and nothing that a user does touches claims.
//
// [Service.Run] is the only caller of drivers for what is written down. Its two sentences: call
// publish for what is publishing, call unpublish for what is unpublishing; record the answer. Beside
// them it repeats creations, expansions and deletions, asks nodes to unmount what they forgot to
// report, and gives up nodes that are lost. One call is in flight per external volume.
//
// A caller of Create, Delete or an expansion waits for the loop's answer. The outcome of an
// unanswered call stays open: the row says so, and the leader carries on.
package volumes
