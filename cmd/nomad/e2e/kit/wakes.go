package kit

import (
	"context"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"
)

// wokeAll fails the test when the agent's server found an evaluation that could run and that was not woken. An agent
// that does not run is not checked.
func (a *Agent) wokeAll() {
	if a.API == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	numbers, _, err := a.API.Operator().MetricsSummary((&api.QueryOptions{}).WithContext(ctx))
	if err != nil {
		return
	}
	for _, g := range numbers.Gauges {
		if strings.HasSuffix(g.Name, ".nomad.blocked_evals.missed_wakes") && g.Value > 0 {
			a.tb.Errorf("%v evaluations could run and nobody had woken them", g.Value)
		}
	}
}
