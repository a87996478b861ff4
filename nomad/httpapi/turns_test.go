package httpapi_test

import (
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
			turns := wire.NewTurns(1)
			h := httpapi.New(httpapi.Config{Servers: world(), Turns: turns})
			if err := turns.Take(t.Context(), "a flood"); err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{}, 1)
			go func() {
				h.ServeHTTP(httptest.NewRecorder(), ask())
				done <- struct{}{}
			}()
			synctest.Wait()
			if len(done) > 0 {
				t.Errorf("%s: it waited for no turn", what)
			}
			turns.Give()
			<-done
		})
	}
}
