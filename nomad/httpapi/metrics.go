package httpapi

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
)

var metricRoutes = []route{{method: "GET", pattern: "/v1/metrics", serve: metrics}}

// metricsEvery is the length of the intervals that answers are stamped with.
const metricsEvery = 10 * time.Second

// gauge is a number as it is now.
type gauge struct {
	Name   string
	Value  float64
	Labels map[string]string
}

// summary is the answer of GET /v1/metrics.
type summary struct {
	Timestamp                 string
	Gauges                    []gauge
	Points, Counters, Samples []struct{}
}

func metrics(c *call) (any, error) {
	switch format := c.params.Get("format"); {
	case format == "prometheus":
		c.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		c.w.WriteHeader(http.StatusUnsupportedMediaType)
		_, _ = c.w.Write([]byte("Prometheus is not enabled"))
		return nil, errStreamed
	case format != "" && format != "json":
		return nil, fault.New(fault.Invalid, "format %q is neither json nor prometheus", format)
	}
	out := summary{
		Timestamp: time.Now().UTC().Truncate(metricsEvery).String(),
		Gauges:    []gauge{}, Points: []struct{}{}, Counters: []struct{}{}, Samples: []struct{}{},
	}
	if c.Gauges == nil {
		return out, nil
	}
	all := c.Gauges()
	for _, name := range slices.SortedFunc(maps.Keys(all), strings.Compare) {
		out.Gauges = append(out.Gauges, gauge{"nomad." + name, all[name], map[string]string{}})
	}
	return out, nil
}
