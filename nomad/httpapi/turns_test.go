package httpapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/httpapi"
)

// Whatever a client asks for is computed when it is its turn, so that many requests of one address are in nobody's way.
func TestRequestsAreComputedInTurn(t *testing.T) {
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
			turns := wire.NewProcessors(1)
			h := httpapi.New(httpapi.Config{Servers: world(), Turns: turns})
			let, done := make(chan struct{}), make(chan struct{}, 1)
			for _, turn := range []func(context.Context, func() error) error{wire.InTurn, wire.InLongTurn} {
				go func() { _ = turn(turns.For(t.Context(), "a flood"), func() error { <-let; return nil }) }()
			}
			synctest.Wait()
			go func() {
				h.ServeHTTP(httptest.NewRecorder(), ask())
				done <- struct{}{}
			}()
			synctest.Wait()
			if len(done) > 0 {
				t.Errorf("%s: it waited for no turn", what)
			}
			close(let)
			<-done
		})
	}
}
