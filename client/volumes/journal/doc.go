// Package journal is the durable list of the volumes that a node uses: a row for each use by an allocation, and a staging for
// each volume that is staged. A record is on disk before it is visible, and before the call that it announces.
//
// The disk may hang or be full. Put and PutStage fail then, because a mount needs its record first. Note, NoteStage and
// Remove change memory at once and write later, because an unmount needs no record to continue: after a crash the older record
// leads to the same calls.
package journal
