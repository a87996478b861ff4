package nomad

import (
	"time"

	"github.com/open-nomad/open-nomad/internal/metrics"
	"github.com/open-nomad/open-nomad/nomad/gauges"
)

// Gauges reports the present values of this server. What concerns the whole cluster is reported by the leader only, so that the
// sum over the servers is right; during an election no server reports it.
func (s *Server) Gauges(emit metrics.Emit) {
	tx := s.state.Read()
	emit("raft.appliedIndex", float64(s.raft.AppliedIndex()))
	emit("raft.lastIndex", float64(s.raft.LastIndex()))
	emit("state.snapshotIndex", float64(tx.Index()))
	emit("nomad.rpc.connected_nodes", float64(s.rpc.ConnectedNodes()))
	s.evals.Gauges(emit)
	if !s.raft.IsLeader() {
		return
	}
	emit("nomad.heartbeat.active", float64(s.nodes.Watched()))
	held, delayed := s.variables.Locks()
	emit("variables.locks.ttl_timer.num", float64(held))
	emit("variables.locks.delay_timer.num", float64(delayed))
	if h := s.raft.Health(); h != nil {
		healthy := 0.0
		if h.Healthy {
			healthy = 1
		}
		emit("nomad.autopilot.healthy", healthy)
		emit("nomad.autopilot.failure_tolerance", float64(h.FailureTolerance))
	}
	gauges.Jobs(tx, emit, s.conf.Telemetry.NoDispatchedJobs)
	gauges.Nodes(tx, emit)
	gauges.Volumes(tx, time.Now(), emit)
	gauges.Plugins(tx, emit)
}

// Telemetry is how a server is measured.
type Telemetry struct {
	// Metrics records what the server does; nil does not.
	Metrics *metrics.Recorder
	// NoDispatchedJobs leaves instances of parameterised jobs out of the counts of jobs.
	NoDispatchedJobs bool
	// NoIdentityLabels leaves out of counts of calls who makes them.
	NoIdentityLabels bool
}
