package login_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
	httplogin "github.com/open-nomad/open-nomad/nomad/httpapi/login"
	"github.com/open-nomad/open-nomad/nomad/login"
	"github.com/open-nomad/open-nomad/nomad/login/provider"
	"github.com/open-nomad/open-nomad/nomad/login/providertest"
	"github.com/open-nomad/open-nomad/nomad/secrets/secretstest"
	"github.com/open-nomad/open-nomad/nomad/state"
)

type site struct {
	*httptest.Server
	t *testing.T
}

func open(t *testing.T) site {
	t.Helper()
	s := state.New()
	tx := s.Write(1, time.Now())
	tx.PutACLPolicy(&api.ACLPolicy{Name: "dev"})
	tx.Commit()
	service := login.New(login.Config{
		Secrets: secretstest.NewBox(),
		Log:     hclog.NewNullLogger(), State: s, Raft: fsm.NewLocal(s, fsm.NewRegistry(login.Commands)), Providers: provider.New(nil), Enabled: true,
	})
	server := httptest.NewServer(endpoint.NewServer(endpoint.Config{Servers: wire.Direct(service.Handlers()...), Log: hclog.NewNullLogger()}, httplogin.Routes))
	t.Cleanup(server.Close)
	return site{server, t}
}

// do sends a request. It returns the code and the body of the response, also decoded when it is an object.
func (s site) do(method, path string, body any) (int, string, map[string]any) {
	s.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.URL+path, strings.NewReader(string(text)))
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := s.Client().Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	var object map[string]any
	_ = json.Unmarshal(answer, &object)
	return resp.StatusCode, string(answer), object
}

// contains reports which of the wanted fields differ.
func contains(t *testing.T, what string, got map[string]any, want string) {
	t.Helper()
	var fields map[string]any
	if err := json.Unmarshal([]byte(want), &fields); err != nil {
		t.Fatal(err)
	}
	for name, w := range fields {
		a, _ := json.Marshal(got[name])
		b, _ := json.Marshal(w)
		if string(a) != string(b) {
			t.Errorf("%s: %s is %s, want %s", what, name, a, b)
		}
	}
}

func TestMethodsRulesAndLogins(t *testing.T) {
	t.Parallel()
	s := open(t)
	p := providertest.New()
	t.Cleanup(p.Close)
	if code, body, _ := s.do("GET", "/v1/acl/auth-methods", nil); code != 200 || body != "[]" {
		t.Errorf("an empty list: %d %s", code, body)
	}
	method := map[string]any{
		"Name": "jwt1", "Type": "JWT", "TokenLocality": "local", "MaxTokenTTL": "1h0m0s", "Config": map[string]any{
			"JWTValidationPubKeys": []string{providertest.PublicPEM(p.EC.Public())}, "BoundAudiences": []string{"nomad"}, "SigningAlgs": []string{"ES256"},
			"ClaimMappings": map[string]string{"sub": "user"},
		},
	}
	code, body, got := s.do("POST", "/v1/acl/auth-method", method)
	if code != 200 {
		t.Fatalf("create: %d %s", code, body)
	}
	contains(t, "method", got, `{"MaxTokenTTL":"1h0m0s","Name":"jwt1","TokenNameFormat":"${auth_method_type}-${auth_method_name}","Default":false,"CreateIndex":2,"ModifyIndex":2}`)
	contains(t, "config", got["Config"].(map[string]any), `{"ExpirationLeeway":"","ClockSkewLeeway":"","OIDCClientSecret":"","OIDCScopes":null,"BoundAudiences":["nomad"]}`)
	if code, body, _ := s.do("PUT", "/v1/acl/auth-method/other", method); code != 400 || body != "ACL auth-method name does not match request path" {
		t.Errorf("another name: %d %s", code, body)
	}
	if code, _, got := s.do("GET", "/v1/acl/auth-method/jwt1", nil); code != 200 || got["Name"] != "jwt1" {
		t.Errorf("read: %d %v", code, got)
	}
	if code, body, _ := s.do("GET", "/v1/acl/auth-method/none", nil); code != 404 || body != "ACL auth-method not found" {
		t.Errorf("read of a missing one: %d %s", code, body)
	}
	code, body, got = s.do("POST", "/v1/acl/binding-rule", map[string]string{"AuthMethod": "jwt1", "BindType": "policy", "BindName": "dev"})
	if code != 200 {
		t.Fatalf("create a rule: %d %s", code, body)
	}
	contains(t, "rule", got, `{"AuthMethod":"jwt1","BindName":"dev","BindType":"policy","Description":"","Selector":"","CreateIndex":3,"ModifyIndex":3}`)
	id := got["ID"].(string)
	if code, body, _ := s.do("PUT", "/v1/acl/binding-rule/other", got); code != 400 || body != "ACL binding rule ID does not match request path" {
		t.Errorf("another id: %d %s", code, body)
	}
	if code, body, _ := s.do("GET", "/v1/acl/binding-rules", nil); code != 200 || strings.Contains(body, "BindName") || !strings.Contains(body, id) {
		t.Errorf("list of rules: %d %s", code, body)
	}
	code, body, got = s.do("POST", "/v1/acl/login", map[string]string{"AuthMethodName": "jwt1", "LoginToken": providertest.Sign("ES256", p.EC, "", p.Claims(nil))})
	if code != 200 || got["SecretID"] == "" {
		t.Errorf("login: %d %s", code, body)
	}
	contains(t, "token", got, `{"Name":"JWT-jwt1","Type":"client","Policies":["dev"],"Global":false,"ExpirationTTL":"1h0m0s"}`)
	for want, login := range map[string]struct {
		code  int
		token string
	}{
		"unable to validate provided token: unable to verify signature of JWT token: error verifying token signature: go-jose/go-jose: compact JWS format must have three parts": {401, "bad"},
		"missing login token": {400, ""},
	} {
		if code, body, _ := s.do("POST", "/v1/acl/login", map[string]string{"AuthMethodName": "jwt1", "LoginToken": login.token}); code != login.code || body != want {
			t.Errorf("login with %q: %d %s", login.token, code, body)
		}
	}
	if code, _, _ := s.do("POST", "/v1/acl/login", map[string]string{"AuthMethodName": "jwt1", "LoginToken": strings.Repeat("x", 200<<10)}); code != 413 {
		t.Errorf("a large login: %d", code)
	}
	if code, body, _ := s.do("DELETE", "/v1/acl/binding-rule/"+id, nil); code != 200 {
		t.Errorf("delete a rule: %d %s", code, body)
	}
	code, body, _ = s.do("POST", "/v1/acl/login", map[string]string{"AuthMethodName": "jwt1", "LoginToken": providertest.Sign("ES256", p.EC, "", p.Claims(nil))})
	if code != 403 || !strings.HasPrefix(body, "no role or policy bindings matched") {
		t.Errorf("login without rules: %d %s", code, body)
	}
	if code, body, _ := s.do("DELETE", "/v1/acl/auth-method/jwt1", nil); code != 200 {
		t.Errorf("delete: %d %s", code, body)
	}
}

func TestLoginsAtAProvider(t *testing.T) {
	t.Parallel()
	s := open(t)
	p := providertest.New()
	t.Cleanup(p.Close)
	const redirect = "http://localhost:4649/oidc/callback"
	if code, body, _ := s.do("PUT", "/v1/acl/auth-method", map[string]any{
		"Name": "sso", "Type": "OIDC", "TokenLocality": "global", "MaxTokenTTL": "8h", "Config": map[string]any{
			"OIDCDiscoveryURL": p.URL, "DiscoveryCaPem": []string{p.CA()}, "OIDCClientID": providertest.ClientID, "OIDCClientSecret": providertest.ClientSecret,
			"OIDCEnablePKCE": true, "AllowedRedirectURIs": []string{redirect},
		},
	}); code != 200 {
		t.Fatalf("create: %d %s", code, body)
	}
	if code, body, _ := s.do("PUT", "/v1/acl/binding-rule", map[string]string{"AuthMethod": "sso", "BindType": "management"}); code != 200 {
		t.Fatalf("create a rule: %d %s", code, body)
	}
	_, body, got := s.do("PUT", "/v1/acl/oidc/auth-url", map[string]string{"AuthMethodName": "sso", "RedirectURI": redirect, "ClientNonce": "n"})
	url, _ := got["AuthURL"].(string)
	back, err := p.Visit(url)
	if err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	code, body, got := s.do("PUT", "/v1/acl/oidc/complete-auth", map[string]string{
		"AuthMethodName": "sso", "RedirectURI": redirect, "ClientNonce": "n", "State": back.Get("state"), "Code": back.Get("code"), "Iss": back.Get("iss"),
	})
	if code != 200 {
		t.Fatalf("complete: %d %s", code, body)
	}
	contains(t, "token", got, `{"Name":"OIDC-sso","Type":"management","Global":true,"ExpirationTTL":"8h0m0s"}`)
	if code, body, _ := s.do("PUT", "/v1/acl/oidc/auth-url", map[string]string{"AuthMethodName": "sso", "RedirectURI": "https://evil/", "ClientNonce": "n"}); code != 400 {
		t.Errorf("a foreign redirect: %d %s", code, body)
	}
}
