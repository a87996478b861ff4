package command_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

func TestAddressesOfPages(t *testing.T) {
	a := newAgent(t, map[string]any{
		"POST /v1/search":           map[string]any{"Matches": map[string][]string{"jobs": {"a/b"}}},
		"GET /v1/jobs":              []*api.JobStub{{ID: "a/b", Namespace: "dev"}},
		"PUT /v1/acl/token/onetime": map[string]any{"OneTimeToken": &api.OneTimeToken{OneTimeSecretID: "once"}},
	})
	run(t, a, "", "ui", "-show-url").want(t, 0, "URL for web UI: http://127.0.0.1:", "/ui/\n")
	run(t, a, "", "ui", "-show-url", "a/").want(t, 0, "/ui/jobs/a%2Fb@dev\n")
	run(t, a, "", "ui", "-show-url", "-authenticate").want(t, 0, "/ui/?ott=once\n")
	run(t, nil, "", "ui", "-show-url", "-address", "unix:///run/nomad.sock").want(t, 1, "a browser cannot open unix:///run/nomad.sock")

	// The browser of the test is none: the command names the address.
	t.Setenv("PATH", "")
	run(t, a, "", "ui", "-authenticate").want(t, 1, "open a browser", "/ui/?ott=once")
}
