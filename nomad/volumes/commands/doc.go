// Package commands holds the raft commands on volumes, their snapshots, claims and attachments: what they
// carry, and what they change. Whether a move is legal is decided when a command is applied, so that late and
// repeated ones are refused.
//
// Who writes what: these commands all of [api.Volume]; package ledger claims and attachments, inside these
// commands and those of plans, allocations and nodes.
//
// A volume's provisioning:
//
//	            create            driver: yes              larger capacity
//	(no row) ───────────▶ creating ──────────▶ available ──────────────────▶ expanding
//	   ▲                   │  ▲ driver: never      ▲  │ ▲                          │
//	   │                   ▼  │ create             │  │ └──────────────────────────┘ completed
//	   │                  failed      register ────┘  │ delete, not in use
//	   │                     │                        ▼
//	   └─────────────────────┴──────────────────── deleting
//	                              driver: yes
//
// A creation that may have had its effect is not forgotten: with other fields it is undone first, see
// [api.VolumeProvision].
//
// A command that arrives once more, at once or late, changes nothing: a reply names the intent, an operator override
// the index of the state that it is about (Seen), and what is later is not affected. Only a request for something that
// does not exist creates it again.
//
// Each call to a driver follows an intent that is in the log, and its reply is refused when the intent was replaced
// meanwhile (compare and set on the intent's raft index). A user's specification of a volume and the driver's report
// about it are stored separately, so that neither overwrites the other, and no user request touches claims.
//
// Kinds and the names of encoded fields never change: logs of the past stay readable.
package commands
