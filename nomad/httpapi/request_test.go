package httpapi_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

// BenchmarkRequest is what the HTTP server adds to one small request.
func BenchmarkRequest(b *testing.B) {
	job, err := json.Marshal(api.JobRegisterRequest{Job: &api.Job{
		ID: "j1", Name: "j1", Type: api.JobTypeService, Datacenters: []string{"*"},
		TaskGroups: []*api.TaskGroup{{
			Name: "g", Count: 1, EphemeralDisk: &api.EphemeralDisk{SizeMB: 10},
			Tasks: []*api.Task{{Name: "t", Driver: "mock_driver", Resources: &api.Resources{CPU: 1, MemoryMB: 10}}},
		}},
	}})
	if err != nil {
		b.Fatal(err)
	}
	h := handler(world())
	for name, r := range map[string]struct{ method, target, body string }{
		"register": {http.MethodPut, "/v1/jobs?namespace=default&region=global", string(job)},
		"dispatch": {http.MethodPut, "/v1/job/web/dispatch", `{"JobID":"web","Payload":null,"Meta":null}`},
		"read":     {http.MethodGet, "/v1/allocation/a1?index=5&wait=30s", ""},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				req := httptest.NewRequest(r.method, r.target, strings.NewReader(r.body))
				req.Header.Set("Accept-Encoding", "gzip")
				h.ServeHTTP(&sink{header: http.Header{}}, req)
			}
		})
	}
	b.Run("nothing", func(b *testing.B) { // of this, making the request
		b.ReportAllocs()
		for b.Loop() {
			httptest.NewRequest(http.MethodPut, "/v1/jobs?namespace=default", strings.NewReader("{}"))
		}
	})
}
