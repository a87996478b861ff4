package command_test

import (
	"os"
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

	// Verbs with -ui print what they print, then the address.
	b := newAgent(t, map[string]any{
		"GET /v1/var/a/b": &api.Variable{VariableMeta: api.VariableMeta{Path: "a/b", Namespace: "dev"}, Items: map[string]string{"k": "v"}},
		"GET /v1/vars":    []*api.VariableMeta{}, "GET /v1/evaluations": []*api.Evaluation{},
	})
	bin := t.TempDir()
	if err := os.WriteFile(bin+"/xdg-open", []byte("#!/bin/sh\n"), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	run(t, b, "", "var", "get", "-ui", "a/b").want(t, 0, "Check Index", "/ui/variables/var/a%2Fb@dev\"\n")
	run(t, b, "", "var", "get", "-ui", "-out", "json", "a/b").want(t, 1, "-ui cannot be combined with the output json")
	run(t, b, "", "var", "list", "-ui").want(t, 0, "No variables found", "/ui/variables\"\n")
	run(t, b, "", "eval", "list", "-ui").want(t, 0, "No evals found", "/ui/evaluations\"\n")

	// The browser of the test is none: the command names the address.
	t.Setenv("PATH", "")
	run(t, a, "", "ui", "-authenticate").want(t, 1, "open a browser", "/ui/?ott=once")
}
