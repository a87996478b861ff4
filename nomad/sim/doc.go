// Package sim runs the machine of volume claims against faults, in virtual time and from a seed.
//
// What is real: the ledger and the machine behind it, the state store, the log in order (the
// in-memory twin of Raft, which encodes and decodes every command). What is played: users who place,
// replace and stop allocations; nodes that mount, fail to unmount, lose reports, send them twice,
// are cut off, reboot and return; a leader that is deposed in the middle of calls; a driver whose
// calls fail before or after their effect, or have it late.
//
// After every step [World.check] asserts the invariants of the machine, on the records and on what
// happened outside. At the end all faults cease, everything is stopped, and nothing may be left.
// A failure carries the seed and the story; the same seed tells the same story.
//
// A [Bug] breaks one rule on purpose. A test plants each of them and expects that it is caught.
package sim
