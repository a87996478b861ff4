package httpapi_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/metrics"
	"github.com/open-nomad/open-nomad/nomad/httpapi"
)

func TestMetricsAreGaugesByName(t *testing.T) {
	t.Parallel()
	h := handler(world())
	w := send(h, "GET", "/v1/metrics", "")
	var out struct {
		Timestamp string
		Gauges    []struct {
			Name  string
			Value float32
		}
		Points, Counters, Samples []any
	}
	if err := json.Unmarshal(w.Body.Bytes(), &out); w.Code != http.StatusOK || err != nil {
		t.Fatalf("code %d, %v: %s", w.Code, err, w.Body)
	}
	var got []string
	for _, g := range out.Gauges {
		got = append(got, g.Name)
	}
	if !slices.Equal(got, []string{"nomad.nomad.a", "nomad.nomad.b"}) || out.Gauges[0].Value != 0.5 || out.Counters == nil || out.Samples == nil || out.Points == nil {
		t.Errorf("answer %s", w.Body)
	}
	if _, err := time.Parse("2006-01-02 15:04:05 -0700 MST", out.Timestamp); err != nil {
		t.Error(err)
	}
	expect(t, send(h, "GET", "/v1/metrics?format=prometheus", ""), http.StatusUnsupportedMediaType, "Prometheus is not enabled")
	on := httpapi.New(httpapi.Config{Servers: world(), Metrics: measured(metrics.Config{NoHost: true, Prometheus: true})})
	expect(t, send(on, "GET", "/v1/metrics?format=prometheus", ""), http.StatusOK, "nomad_nomad_a 0.5")
	expect(t, send(httpapi.New(httpapi.Config{Servers: world()}), "GET", "/v1/metrics", ""), http.StatusOK, `"Gauges":[]`)
	expect(t, send(h, "GET", "/v1/metrics?format=xml", ""), http.StatusBadRequest, "xml")
}
