package endpoint_test

import (
	"net/http/httptest"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
)

func TestTextsOfRequestsHaveNoTokens(t *testing.T) {
	const jwt = "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJ4In0.c2ln-nature_"
	r := httptest.NewRequest("GET", "/v1/jobs", nil)
	r.Header.Set("X-Nomad-Token", "s3cret")
	for text, want := range map[string]string{
		"/v1/acl/token/s3cret": "/v1/acl/token/<redacted>",
		"/v1/var/" + jwt:       "/v1/var/<redacted>",
		"/v1/job/eyJob.x":      "/v1/job/eyJob.x",
	} {
		if got := endpoint.Hidden(r, text); got != want {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}
