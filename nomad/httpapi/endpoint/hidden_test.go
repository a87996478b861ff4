package endpoint_test

import (
	"net/http/httptest"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
)

func TestTextsOfRequestsHaveNoTokens(t *testing.T) {
	const jwt = "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJ4In0.c2ln-nature_"
	r := httptest.NewRequest("GET", "/v1/jobs", nil)
	const secret = "5c0ffee5-0000-4000-8000-000000000001"
	r.Header.Set("X-Nomad-Token", secret)
	for text, want := range map[string]string{
		"/v1/acl/token/" + secret: "/v1/acl/token/<redacted cd3fea288986>",
		"/v1/var/" + jwt:          "/v1/var/<redacted c93d57311bd5>",
		"/v1/job/eyJob.x":         "/v1/job/eyJob.x",
	} {
		if got := endpoint.Hidden(r, text); got != want {
			t.Errorf("%q becomes %q", text, got)
		}
	}
	r.Header.Set("X-Nomad-Token", "/v1/jobs")
	if got := endpoint.Hidden(r, "/v1/jobs"); got != "/v1/jobs" {
		t.Errorf("a token that is no secret hides the path: %q", got)
	}
}
