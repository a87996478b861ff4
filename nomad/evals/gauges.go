package evals

// Names of gauges.
const (
	gaugeReady   = "nomad.broker.total_ready"
	gaugeUnacked = "nomad.broker.total_unacked"
	gaugePending = "nomad.broker.total_pending"
	gaugeWaiting = "nomad.broker.total_waiting"
	gaugeBlocked = "nomad.blocked_evals.total_blocked"
	gaugeEscaped = "nomad.blocked_evals.total_escaped"
	gaugeQuota   = "nomad.blocked_evals.total_quota_limit"
	gaugeMissed  = "nomad.blocked_evals.missed_wakes"
)

// Gauges are numbers about evaluations by their names. Queues are the leader's: elsewhere they are empty.
func (s *Service) Gauges() map[string]float64 {
	out := map[string]float64{
		gaugeReady: 0, gaugeUnacked: 0, gaugePending: 0, gaugeWaiting: 0, gaugeBlocked: 0, gaugeEscaped: 0, gaugeQuota: 0,
		gaugeMissed: float64(s.MissedWakes()),
	}
	l, _ := s.leads()
	if l == nil {
		return out
	}
	queues := l.broker.Stats()
	out[gaugeReady], out[gaugeUnacked] = float64(queues.Ready), float64(queues.Out)
	out[gaugePending], out[gaugeWaiting] = float64(queues.Waiting), float64(queues.Delayed)
	all, escaped, quota := l.blocked.Count()
	out[gaugeBlocked], out[gaugeEscaped], out[gaugeQuota] = float64(all), float64(escaped), float64(quota)
	return out
}
