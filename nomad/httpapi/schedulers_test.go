package httpapi_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/httpapi"
)

// crew is a number of workers.
type crew struct {
	n     int
	kinds []string
}

func (c *crew) Workers() []*api.SchedulerWorker {
	return []*api.SchedulerWorker{{ID: "w1", EnabledSchedulers: c.kinds, Started: time.Unix(0, 0).UTC(), Status: "Started", WorkloadStatus: "WaitingToDequeue"}}
}

func (c *crew) WorkerConfig() (int, []string) { return c.n, c.kinds }

func (c *crew) SetWorkerConfig(_ context.Context, n int, kinds []string) error {
	if n < 0 {
		return fault.New(fault.Invalid, "num_schedulers %d is negative", n)
	}
	c.n, c.kinds = n, slices.Clone(kinds)
	return nil
}

func TestSchedulerWorkers(t *testing.T) {
	t.Parallel()
	h := httpapi.New(httpapi.Config{Servers: world(), Name: "s1", Region: "global", Schedulers: &crew{2, []string{"service", "batch"}}})
	expect(t, send(h, "GET", "/v1/agent/schedulers", ""), 200,
		`{"server_id":"s1.global","schedulers":[{"id":"w1","enabled_schedulers":["service","batch"],"started":"1970-01-01T00:00:00Z","status":"Started","workload_status":"WaitingToDequeue"}]}`)
	expect(t, send(h, "GET", "/v1/agent/schedulers/config", ""), 200, `{"server_id":"s1.global","num_schedulers":2,"enabled_schedulers":["service","batch"]}`)
	expect(t, send(h, "PUT", "/v1/agent/schedulers/config", `{"num_schedulers":3,"enabled_schedulers":["batch"]}`), 200, `"num_schedulers":3,"enabled_schedulers":["batch"]`)
	expect(t, send(h, "PUT", "/v1/agent/schedulers/config", `{"num_schedulers":1}`), 200, `"num_schedulers":1,"enabled_schedulers":["batch"]`)
	// Clients compare the whole text.
	if w := send(h, "PUT", "/v1/agent/schedulers/config", `{"num_schedulers":-1}`); w.Code != 400 || w.Body.String() != "Invalid request" {
		t.Errorf("%d: %q", w.Code, w.Body)
	}
	expect(t, send(h, "PUT", "/v1/agent/schedulers/config", `{}`), 400, "Invalid request")
	expect(t, send(h, "PUT", "/v1/agent/schedulers/config", `{"num_schedulers":"x"}`), 400, "Invalid request")
}
