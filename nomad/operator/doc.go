// Package operator is the room of those who run the cluster: who leads, who the Raft peers are, and
// the scheduling configuration, which this room alone writes.
package operator
