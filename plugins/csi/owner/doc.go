// Package owner gives mounted file systems to the owners that their volumes name, and makes the directories
// that tasks mount instead of a volume's root.
//
// The contents of a volume were written by workloads, so they are never trusted: every step is taken from a descriptor
// of the previous step, links are not followed, and other file systems mounted inside are left alone. A file system
// that hangs blocks one goroutine, not its caller, which continues when its context ends.
package owner
