package agent

import (
	"net/http"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
)

// metrics returns the metrics of this agent. It calls no server, so that it works during an election.
func (a Config) metrics(c *endpoint.Call) (any, error) {
	switch format := c.Params.Get("format"); format {
	case "prometheus":
		if h := a.Metrics.Prometheus(); h != nil {
			h.ServeHTTP(c.W, c.R)
			return nil, endpoint.ErrStreamed
		}
		c.W.Header().Set("Content-Type", "text/plain; charset=utf-8")
		c.W.WriteHeader(http.StatusUnsupportedMediaType)
		_, _ = c.W.Write([]byte("Prometheus is not enabled"))
		return nil, endpoint.ErrStreamed
	case "", "json":
		return a.Metrics.Summary()
	default:
		return nil, fault.New(fault.Invalid, "format %q is neither json nor prometheus", format)
	}
}
