// Package secrets seals the secrets of volumes, snapshots, attachments and tokens before they are written to the log, and
// opens them where a plugin is called or a user may read them.
//
// A set of secrets in the state has two kinds of entries. The value of a named entry is sealed: it names a root key and
// holds AES-256-GCM ciphertext. The entry with the empty name, which CSI does not permit and users cannot write, refers
// to a variable: its items are part of the set, and named entries replace items of the same name. A set moves through
// commands and rows as it is; the state machine neither opens nor seals.
//
// Sealing is deterministic for one root key: the nonce is a keyed hash of the name and the value. So writing a
// specification again changes nothing, and equal secrets of equal names have equal ciphertext.
//
// A root key that is removed between the sealing of a secret and its entry in the log leaves a secret that cannot be opened:
// the volume is registered again. A driver that quotes a value of a variable which changes during its call is not masked.
package secrets
