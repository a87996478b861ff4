package attacks

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// TestSecretsAreShownToNobody uses secrets of all kinds in all places where they may be, and some where they may not. They are
// in no log, at the level TRACE, no list, no gauge, no error and no redacted snapshot.
func TestSecretsAreShownToNobody(t *testing.T) {
	t.Parallel()
	a := kit.PrepareGuarded(t)
	config := filepath.Join(a.Dir, "agent.hcl")
	body, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, bytes.Replace(body, []byte(`"DEBUG"`), []byte(`"TRACE"`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	a.Launch()
	token := a.ClientToken("canary", `namespace "default" { policy = "write" } agent { policy = "read" } node { policy = "read" }`)
	created, _, err := a.API.ACLTokens().Create(&api.ACLToken{Name: "other", Type: "management"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	once, _, err := a.As(token.SecretID).ACLTokens().UpsertOneTimeToken(nil)
	if err != nil {
		t.Fatal(err)
	}
	const client, assertion = "canary-of-the-client-secret", "eyJhbGciOiJub25lIn0.eyJzdWIiOiJjYW5hcnkifQ.canary"
	method := &api.ACLAuthMethod{Name: "sso", Type: "OIDC", TokenLocality: "local", MaxTokenTTL: 3600e9, Config: &api.ACLAuthMethodConfig{
		OIDCDiscoveryURL: "https://127.0.0.1:1", OIDCClientID: "x", OIDCClientSecret: client, BoundAudiences: []string{"x"}, AllowedRedirectURIs: []string{"http://localhost:4649/oidc/callback"},
	}}
	if _, _, err := a.API.ACLAuthMethods().Create(method, nil); err != nil {
		t.Fatal(err)
	}
	secrets := []string{kit.ManagementToken, token.SecretID, created.SecretID, once.OneTimeSecretID, client, assertion}
	shown := func(what string, text []byte) {
		t.Helper()
		for i, s := range secrets {
			if bytes.Contains(text, []byte(s)) {
				at := bytes.Index(text, []byte(s))
				t.Errorf("%s shows secret %d: %q", what, i, text[max(0, at-200):at])
			}
		}
	}
	for _, s := range secrets {
		for _, path := range []string{"/v1/jobs", "/v1/agent/self", "/v1/nothing", "/v1/acl/token/self", "/v1/job/x"} {
			send(t, a, s, http.MethodGet, path+"?token="+s+"&X-Nomad-Token="+s+"&secret_id="+s, "")
			send(t, a, "x"+s, http.MethodGet, path+"?token="+s, "")
		}
		for path, body := range map[string]string{
			"/v1/jobs": `{"SecretID":%q,"Job":{"ID":"x"}}`, "/v1/job/x": `{"Job":%q}`, "/v1/acl/token": `{"SecretID":%q,"Type":"x"}`, "/v1/acl/policy/x": `{"Name":"x","Rules":%q}`,
			"/v1/acl/bootstrap": `{"BootstrapSecret":%q}`, "/v1/acl/token/onetime/exchange": `{"OneTimeSecretID":"x%s"}`, "/v1/acl/login": `{"AuthMethodName":"sso","LoginToken":%q}`,
			"/v1/acl/oidc/complete-auth": `{"AuthMethodName":"sso","State":%q,"Code":"x","ClientNonce":"y","RedirectURI":"http://localhost:4649/oidc/callback"}`,
			"/v1/acl/oidc/auth-url":      `{"AuthMethodName":"sso","ClientNonce":%q,"RedirectURI":"http://localhost:4649/oidc/callback"}`,
			"/v1/acl/auth-method":        `{"Name":"x","Type":"OIDC","Config":{"OIDCClientSecret":%q}}`, "/v1/search": `{"Prefix":"x","AuthToken":%q}`,
		} {
			out, code := send(t, a, token.SecretID, http.MethodPut, path, fmt.Sprintf(body, s))
			shown(fmt.Sprintf("the response %d of %s to %s", code, path, body), out)
			send(t, a, token.SecretID, http.MethodPut, path, `{"`+s)
		}
		a.Run("node", "status", "-token", s)
		a.Run("job", "status", "-token", s, "x")
	}
	for _, path := range []string{
		"/v1/agent/self", "/v1/metrics", "/v1/acl/tokens", "/v1/acl/policies", "/v1/acl/roles", "/v1/acl/auth-methods", "/v1/acl/binding-rules",
		"/v1/nodes", "/v1/agent/members", "/v1/agent/health", "/v1/operator/raft/configuration", "/v1/status/leader",
	} {
		out, code := send(t, a, kit.ManagementToken, http.MethodGet, path, "")
		if code != http.StatusOK {
			t.Errorf("%s: %d %s", path, code, out)
		}
		shown(path, out)
	}
	for _, args := range [][]string{
		{"acl", "token", "list", "-json"}, {"acl", "auth-method", "list", "-json"}, {"acl", "auth-method", "info", "sso"}, {"acl", "token", "self"}, {"operator", "raft", "list-peers"}, {"server", "members"},
	} {
		out, code := a.Run(args...)
		if code != 0 {
			t.Errorf("%v: %d %s", args, code, out)
		}
		if !slices.Contains(args, "self") { // which shows the token that it was asked with
			shown(strings.Join(args, " "), []byte(out))
		}
	}
	saved := filepath.Join(a.Dir, "saved.snap")
	if out, code := a.Run("operator", "snapshot", "save", saved); code != 0 {
		t.Fatal(out)
	}
	whole := unpacked(t, saved)
	if !bytes.Contains(whole, []byte(client)) {
		t.Error("the snapshot has no client secret, or is not read as it should be")
	}
	for i, s := range []string{kit.ManagementToken, token.SecretID, created.SecretID, once.OneTimeSecretID} {
		if bytes.Contains(whole, []byte(s)) {
			t.Errorf("the snapshot contains the secret of token %d", i)
		}
	}
	if out, code := a.Run("operator", "snapshot", "redact", saved); code != 0 {
		t.Fatal(out)
	}
	shown("the redacted snapshot", unpacked(t, saved))
	log, err := os.ReadFile(filepath.Join(a.Dir, "agent.log"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(log, []byte("/v1/acl/login")) {
		t.Error("the log does not show requests")
	}
	shown("the log", log)
}

// unpacked are the bytes of a snapshot.
func unpacked(t *testing.T, file string) []byte {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return all
}
