package httpapi_test

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/httpapi"
)

// Values that other servers take mean what they mean there.
func TestQueriesThatOthersTake(t *testing.T) {
	t.Parallel()
	c := world()
	for _, target := range []string{"/v1/jobs?per_page=-1", "/v1/jobs?wait=-5s", "/v1/agent/health?type=other"} {
		expect(t, send(handler(c), "GET", target, ""), http.StatusOK, "")
	}
	if q := last(t, c, wire.JobList).QueryOptions; q.PerPage != 0 || q.MaxWait != 0 {
		t.Errorf("%+v", q)
	}
}

func TestAnswersDoNotEscapeHTML(t *testing.T) {
	t.Parallel()
	c := newCluster()
	on(c, wire.NamespaceGet, func(*api.NameRequest) (*api.NamespaceGetResponse, error) {
		return &api.NamespaceGetResponse{Namespace: &api.Namespace{Name: "a", Description: "<&>"}}, nil
	})
	expect(t, send(handler(c), "GET", "/v1/namespace/a", ""), http.StatusOK, "<&>")
}

// Routes that this version does not serve are no errors of the server.
func TestRefusedRoutesAreLoggedAtDebug(t *testing.T) {
	t.Parallel()
	for level, want := range map[hclog.Level]bool{hclog.Info: false, hclog.Debug: true} {
		var log bytes.Buffer
		h := httpapi.New(httpapi.Config{Servers: newCluster(), Log: hclog.New(&hclog.LoggerOptions{Output: &log, Level: level})})
		send(h, "GET", "/v1/client/allocation/a1/snapshot", "")
		send(h, "GET", "/v1/unknown", "")
		if got := bytes.Count(log.Bytes(), []byte("request failed")) == 2; got != want {
			t.Errorf("level %s: %s", level, &log)
		}
	}
}
