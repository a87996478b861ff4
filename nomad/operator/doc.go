// Package operator is the service for operators: it reports the leader and the Raft peers, and stores the
// scheduling configuration, which this service alone writes.
package operator
