package agent

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
)

// metricsEvery is the length of the intervals that responses are stamped with.
const metricsEvery = 10 * time.Second

// gauge is a number as it is now.
type gauge struct {
	Name   string
	Value  float64
	Labels map[string]string
}

// summary is the response of GET /v1/metrics.
type summary struct {
	Timestamp                 string
	Gauges                    []gauge
	Points, Counters, Samples []struct{}
}

func (a Config) metrics(c *endpoint.Call) (any, error) {
	switch format := c.Params.Get("format"); {
	case format == "prometheus":
		c.W.Header().Set("Content-Type", "text/plain; charset=utf-8")
		c.W.WriteHeader(http.StatusUnsupportedMediaType)
		_, _ = c.W.Write([]byte("Prometheus is not enabled"))
		return nil, endpoint.ErrStreamed
	case format != "" && format != "json":
		return nil, fault.New(fault.Invalid, "format %q is neither json nor prometheus", format)
	}
	out := summary{
		Timestamp: time.Now().UTC().Truncate(metricsEvery).String(),
		Gauges:    []gauge{}, Points: []struct{}{}, Counters: []struct{}{}, Samples: []struct{}{},
	}
	if a.Gauges == nil {
		return out, nil
	}
	all := a.Gauges()
	for _, name := range slices.SortedFunc(maps.Keys(all), strings.Compare) {
		out.Gauges = append(out.Gauges, gauge{"nomad." + name, all[name], map[string]string{}})
	}
	return out, nil
}
