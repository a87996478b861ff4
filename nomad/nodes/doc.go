// Package nodes is the service of client agents: registration, heartbeats, status, eligibility, drain.
//
// A node's life:
//
//	(absent) --register--> initializing --heartbeat ready--> ready
//	ready, initializing --heartbeats missed--> down, or disconnected where a group allows it
//	disconnected --nothing there may live on any more--> down
//	down, disconnected --heartbeat ready--> ready
//	any --purge--> (absent)
//
// Who writes what in an [api.Node]: the node its fingerprint (attributes, resources, drivers, CSI
// plugins, meta, class, pool) by registering; this service status, eligibility, drain, events, computed
// class and indexes. A node is known by its id: a second node with the same id and another secret is refused.
//
// Identities: the leader signs an identity with a registration or heartbeat. The first use of the identity binds the node: the
// record gets the id of the key that signed it, and the secret alone is refused as long as the state has this key. An expired
// identity is accepted for a registration only, together with the secret. Binding at the first use, not when it is issued, makes
// a lost reply harmless: the node has the identity on its disk before it uses it. No token is stored here.
//
// Evaluations come from the same raft entry as the fact that causes them: a node that became ready,
// or changed what constraints can see while ready, evaluates its jobs and all system jobs; one that
// was lost too.
//
// A node follows its allocations by a blocking query. The first one names all that it has; after that the
// highest index and the number of them are enough, as long as the responses come from the same state: its line
// ([state.Txn.Line]) changes with a restore and from server to server, and then all is compared again.
//
// Heartbeat deadlines live in the leader's memory only. A new leader gives every node
// FailoverTTL before it is lost.
package nodes
