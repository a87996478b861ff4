// Package timeline turns changed rows into the entries of a volume's timeline. It is pure: package nomad/state calls it
// with the changes of a raft entry before it commits them, so that each command that changes a claim, an attachment, a
// snapshot intent or a volume is recorded in the same entry, and equally on all servers.
//
// Invariants: a timeline has at most [api.VolumeEventsMax] entries of at most [api.VolumeEventTextMax] bytes of text;
// equal entries in a row are one with a count.
package timeline
