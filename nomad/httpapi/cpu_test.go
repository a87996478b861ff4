package httpapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/open-nomad/open-nomad/internal/cpulimit"
	"github.com/open-nomad/open-nomad/nomad/httpapi"
)

// All that a request computes waits for a slot, so that many requests of one address do not delay others.
func TestRequestsWaitForTheProcessors(t *testing.T) {
	for what, ask := range map[string]func() *http.Request{
		"order a list": func() *http.Request { return httptest.NewRequest(http.MethodGet, "/v1/jobs", nil) },
		"encode one":   func() *http.Request { return httptest.NewRequest(http.MethodGet, "/v1/node/n1", nil) },
		"decode a job": func() *http.Request {
			return httptest.NewRequest(http.MethodPut, "/v1/jobs", strings.NewReader(`{"Job":{}`))
		},
		"decode a body": func() *http.Request {
			return httptest.NewRequest(http.MethodPut, "/v1/namespace", strings.NewReader("{}x"))
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			cpu := cpulimit.New(1)
			h := httpapi.New(httpapi.Config{Servers: world(), CPU: cpu})
			let, done := make(chan struct{}), make(chan struct{}, 1)
			for _, run := range []func(context.Context, func() error) error{cpulimit.Short, cpulimit.Long} {
				go func() { _ = run(cpu.For(t.Context(), "a flood"), func() error { <-let; return nil }) }()
			}
			synctest.Wait()
			go func() {
				h.ServeHTTP(httptest.NewRecorder(), ask())
				done <- struct{}{}
			}()
			synctest.Wait()
			if len(done) > 0 {
				t.Errorf("%s: it did not wait for a slot", what)
			}
			close(let)
			<-done
		})
	}
}
