// Package operator is the service for those who run the cluster: who leads, who the Raft peers are, and
// the scheduling configuration, which this service alone writes.
package operator
