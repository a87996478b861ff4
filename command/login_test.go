package command_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

func TestLoginWithJWT(t *testing.T) {
	a := newAgent(t, map[string]any{
		"GET /v1/acl/auth-methods": []*api.ACLAuthMethodListStub{{Name: "sso", Type: "OIDC"}, {Name: "ci", Type: "JWT", Default: true}},
		"PUT /v1/acl/login":        clientToken(t),
	})
	for _, x := range []struct{ token, stdin string }{{"j.w.t", ""}, {"-", "j.w.t\n"}, {"@" + file(t, "jwt", "j.w.t\n"), ""}} {
		run(t, a, x.stdin, "login", "-login-token", x.token).want(t, 0, "Successfully logged in via JWT and ci\n\nAccessor ID  = a31df172", "Secret ID    = b5529fbd")
		a.has(t, "PUT /v1/acl/login", `{"AuthMethodName": "ci", "LoginToken": "j.w.t"}`)
	}
	run(t, a, "", "login").want(t, 1, "needs -login-token")
	run(t, a, "", "login", "-type", "oidc").want(t, 1, "one of [sso]")
	run(t, a, "", "login", "-method", "nope").want(t, 1, `auth method "nope" not found: use one of [sso, ci]`)
	a.answers["PUT /v1/acl/login"] = &refusal{401, "unable to validate provided token"}
	if o := run(t, a, "", "login", "-login-token", "j.w.t"); o.code != 1 || strings.Contains(o.err, "j.w.t") {
		t.Errorf("%+v", o)
	}
}

// TestLoginWithOIDC has a browser that follows the page of the identity provider back, first with the state of another
// login.
func TestLoginWithOIDC(t *testing.T) {
	const state = "st_1"
	var completed string
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/v1/acl/auth-methods":
			_, _ = io.WriteString(w, `[{"Name": "sso", "Type": "OIDC", "Default": true}]`)
		case "/v1/acl/oidc/auth-url":
			_, after, _ := strings.Cut(string(body), `"RedirectURI":"`)
			redirect, _, _ := strings.Cut(after, `"`)
			_, _ = io.WriteString(w, `{"AuthURL": "https://idp.example/auth?state=`+state+`"}`)
			go func() {
				for _, q := range []string{"state=other&code=evil", "state=" + state + "&code=c1&iss=" + url.QueryEscape("https://idp.example")} {
					if resp, err := http.Get(redirect + "?" + q); err == nil {
						_ = resp.Body.Close()
						if (resp.StatusCode == http.StatusOK) != strings.Contains(q, state) {
							t.Errorf("%s: code %d", q, resp.StatusCode)
						}
					}
				}
			}()
		case "/v1/acl/oidc/complete-auth":
			completed = string(body)
			_, _ = io.WriteString(w, `{"AccessorID": "acc", "SecretID": "sec", "Type": "client"}`)
		default:
			http.NotFound(w, r)
		}
	}))
	defer agent.Close()
	run(t, nil, "", "login", "-oidc-callback-addr", "127.0.0.1:0", "-address", agent.URL).want(t, 0,
		"https://idp.example/auth?state="+state, "Successfully logged in via OIDC and sso", "Secret ID    = sec")
	for _, want := range []string{`"AuthMethodName":"sso"`, `"State":"st_1"`, `"Code":"c1"`, `"Iss":"https://idp.example"`, `/oidc/callback"`} {
		if !strings.Contains(completed, want) {
			t.Errorf("no %s in %s", want, completed)
		}
	}
	run(t, nil, "", "login", "-oidc-callback-addr", "nonsense", "-address", agent.URL).want(t, 1, "-oidc-callback-addr")
}
