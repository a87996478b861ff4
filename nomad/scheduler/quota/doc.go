// Package quota counts what the namespaces of a quota use and compares it with the limits of the quota.
//
// An allocation counts until its node reports its end. CPU (MHz), memory, memory_max and secrets are counted by the life
// cycle of the tasks, as on nodes; reserved cores are counted as cores and not in MHz, so that an allocation counts the same
// on every node. Volumes count while they are registered, and variables with the size of their encrypted items.
package quota
