// Package owner gives mounted file systems to the owners that their volumes name, and makes the directories
// that tasks mount instead of a volume's root.
//
// What lies on a volume was written by workloads, so it is never trusted: every step is taken from a
// descriptor of the step before, links are not followed, and other file systems mounted inside are left
// alone. A file system that hangs costs one goroutine, not its caller, who goes on when its context ends.
package owner
