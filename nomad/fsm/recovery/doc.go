// Package recovery inspects and repairs the raft log of a stopped server for `nomad operator raft recover`.
package recovery
