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
//	   │                   ▼  │ create             │  │ └──────────────────────────┘ answered
//	   │                  failed      register ────┘  │ delete, nobody has a hold on it
//	   │                     │                        ▼
//	   └─────────────────────┴──────────────────── deleting
//	                              driver: yes
//
// A creation that may have had its effect is not forgotten: with other fields it is undone first, see
// [api.VolumeProvision].
//
// A command that comes once more, at once or late, changes nothing: an answer names the intent, an operator's word the
// index of the state that it is about (Seen), and what is later is not meant. Only who asks for something that is not
// there gets it anew.
//
// Each call to a driver follows an intent that is in the log, and its answer is refused when the intent was
// replaced meanwhile (compare and set on the intent's raft index). What a user says of a volume and what the
// driver said of it are apart, so that neither wipes the other, and nothing that a user does touches claims.
//
// Kinds and the names of encoded fields never change: logs of the past stay readable.
package commands
