package command_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	when, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return when
}

// file writes a file and returns its path.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (o outcome) wantOut(t *testing.T, want string) {
	t.Helper()
	if o.code != 0 || o.out != want {
		t.Errorf("exit code %d\nstdout: %s\nwant:   %s\nstderr: %s", o.code, o.out, want, o.err)
	}
}

// has checks the JSON body of a request for fields.
func (a *agent) has(t *testing.T, request, fields string) {
	t.Helper()
	var got, want map[string]any
	if err := json.Unmarshal([]byte(a.bodies[request]), &got); err != nil {
		t.Fatalf("%s: %v in %q of %v", request, err, a.bodies[request], a.asked)
	}
	if err := json.Unmarshal([]byte(fields), &want); err != nil {
		t.Fatal(err)
	}
	for key, value := range want {
		g, _ := json.Marshal(got[key])
		if w, _ := json.Marshal(value); string(g) != string(w) {
			t.Errorf("%s: %s is %s, want %s", request, key, g, w)
		}
	}
}

func clientToken(t *testing.T) *api.ACLToken {
	return &api.ACLToken{
		AccessorID: "a31df172-8826-561f-bfdd-1c7a68d94f6c", SecretID: "b5529fbd-4293-cff6-8109-3851896f9e11", Name: "c", Type: "client",
		Policies: []string{"dev"}, CreateTime: at(t, "2026-11-21T03:08:25.138426237Z"), CreateIndex: 34, ModifyIndex: 34,
	}
}

func TestACLTokensAreShownAsRecorded(t *testing.T) {
	a := newAgent(t, map[string]any{
		"PUT /v1/acl/token": clientToken(t),
		"GET /v1/acl/token/self": &api.ACLToken{
			AccessorID: "c45b2e4e-0566-9172-95a8-23bae95e0997", SecretID: "7ec4539c-4d11-0081-1c88-ec4b202ce83e", Name: "Bootstrap Token",
			Type: "management", Global: true, CreateTime: at(t, "2026-11-21T03:07:55.663839168Z"), CreateIndex: 11, ModifyIndex: 11,
		},
		"GET /v1/acl/policy/dev": &api.ACLPolicy{Name: "dev"},
		"GET /v1/acl/tokens": []*api.ACLTokenListStub{
			{Name: "Bootstrap Token", Type: "management", Global: true, AccessorID: "c45b2e4e-0566-9172-95a8-23bae95e0997"},
			{Name: "dev2", Type: "client", AccessorID: "1f8b42b7-b2de-4594-9086-770e5ffecc19"},
		},
	})
	run(t, a, "", "acl", "token", "create", "-name", "c", "-policy", "dev").wantOut(t, `Accessor ID  = a31df172-8826-561f-bfdd-1c7a68d94f6c
Secret ID    = b5529fbd-4293-cff6-8109-3851896f9e11
Name         = c
Type         = client
Global       = false
Create Time  = 2026-11-21 03:08:25.138426237 +0000 UTC
Expiry Time  = <none>
Create Index = 34
Modify Index = 34
Policies     = [dev]

Roles
<none>
`)
	a.has(t, "PUT /v1/acl/token", `{"Name": "c", "Type": "client", "Policies": ["dev"], "Global": false, "ExpirationTTL": ""}`)
	run(t, a, "", "acl", "token", "self").wantOut(t, `Accessor ID  = c45b2e4e-0566-9172-95a8-23bae95e0997
Secret ID    = 7ec4539c-4d11-0081-1c88-ec4b202ce83e
Name         = Bootstrap Token
Type         = management
Global       = true
Create Time  = 2026-11-21 03:07:55.663839168 +0000 UTC
Expiry Time  = <none>
Create Index = 11
Modify Index = 11
Policies     = n/a
Roles        = n/a
`)
	run(t, a, "", "acl", "token", "list").wantOut(t, `Name             Type        Global  Accessor ID                           Expired
Bootstrap Token  management  true    c45b2e4e-0566-9172-95a8-23bae95e0997  false
dev2             client      false   1f8b42b7-b2de-4594-9086-770e5ffecc19  false
`)
	if o := run(t, a, "", "acl", "token", "create", "-policy", "later", "-ttl", "1h", "-t", "{{.AccessorID}}"); o.out != "a31df172-8826-561f-bfdd-1c7a68d94f6c\n" || !strings.Contains(o.err, `policy "later" does not exist`) {
		t.Errorf("%+v", o)
	}
	a.has(t, "PUT /v1/acl/token", `{"ExpirationTTL": "1h0m0s"}`)
}

func TestACLBootstrapSendsTheGivenSecret(t *testing.T) {
	a := newAgent(t, map[string]any{"PUT /v1/acl/bootstrap": clientToken(t)})
	run(t, a, "8ac3dd12-1c4c-4c4c-9d9d-000000000000\n", "acl", "bootstrap", "-").want(t, 0, "Secret ID    = b5529fbd")
	a.has(t, "PUT /v1/acl/bootstrap", `{"BootstrapSecret": "8ac3dd12-1c4c-4c4c-9d9d-000000000000"}`)
	run(t, a, "", "acl", "bootstrap", "-").want(t, 1, "stdin holds no secret")
}

func TestACLTokenUpdateKeepsWhatNoFlagNames(t *testing.T) {
	a := newAgent(t, map[string]any{"GET /v1/acl/token/a": clientToken(t), "PUT /v1/acl/token/" + clientToken(t).AccessorID: clientToken(t)})
	run(t, a, "", "acl", "token", "update", "-role-name", "ops", "a").want(t, 0)
	a.has(t, "PUT /v1/acl/token/"+clientToken(t).AccessorID, `{"Name": "c", "Policies": ["dev"], "Roles": [{"ID": "", "Name": "ops"}]}`)
	run(t, a, "", "acl", "token", "update", "-type", "boss", "a").want(t, 1, `-type "boss"`)
	run(t, a, "", "acl", "token", "create", "-accessor", "a").want(t, 1, "file with the secret")
}

func TestACLPolicies(t *testing.T) {
	a := newAgent(t, map[string]any{
		"PUT /v1/acl/policy/cli": "", "DELETE /v1/acl/policy/cli": "",
		"GET /v1/acl/policy/cli":  &api.ACLPolicy{Name: "cli", Description: "x", Rules: "node {\n  policy = \"read\"\n}\n", CreateIndex: 12, ModifyIndex: 12},
		"GET /v1/acl/policy/self": []*api.ACLPolicyListStub{{Name: "cli"}},
	})
	run(t, a, "node { policy = \"read\" }\n", "acl", "policy", "apply", "-description", "x", "cli", "-").wantOut(t, "Successfully wrote \"cli\" ACL policy!\n")
	a.has(t, "PUT /v1/acl/policy/cli", `{"Name": "cli", "Description": "x", "Rules": "node { policy = \"read\" }\n", "JobACL": null}`)
	run(t, a, "", "acl", "policy", "info", "cli").wantOut(t, "Name        = cli\nDescription = x\nCreateIndex = 12\nModifyIndex = 12\n\nRules\n\n  node {\n    policy = \"read\"\n  }\n")
	run(t, a, "x", "acl", "policy", "apply", "-namespace", "team", "-job", "web", "-group", "g", "cli", "-").want(t, 0)
	a.has(t, "PUT /v1/acl/policy/cli", `{"JobACL": {"Namespace": "team", "JobID": "web", "Group": "g", "Task": ""}}`)
	run(t, a, "x", "acl", "policy", "apply", "-task", "t", "cli", "-").want(t, 1, "-task needs -group")
	run(t, a, "", "acl", "policy", "self").wantOut(t, "Name  Job ID  Group Name  Task Name\ncli   <none>  <none>      <none>\n")
	run(t, a, "", "acl", "policy", "delete", "cli").wantOut(t, "Successfully deleted cli policy!\n")
}

func TestACLRoles(t *testing.T) {
	role := &api.ACLRole{ID: "r", Name: "ops", Description: "d", Policies: []*api.ACLRolePolicyLink{{Name: "dev"}, {Name: "ops"}}, CreateIndex: 16, ModifyIndex: 16}
	a := newAgent(t, map[string]any{"GET /v1/acl/role/r": role, "GET /v1/acl/role/name/ops": role, "PUT /v1/acl/role/r": role, "PUT /v1/acl/role": role})
	shown := "ID           = r\nName         = ops\nDescription  = d\nPolicies     = dev,ops\nCreate Index = 16\nModify Index = 16\n"
	run(t, a, "", "acl", "role", "info", "-by-name", "ops").wantOut(t, shown)
	run(t, a, "", "acl", "role", "create", "-name", "ops").want(t, 1, "-policy is missing")
	run(t, a, "", "acl", "role", "update", "-name", "new", "r").wantOut(t, shown)
	a.has(t, "PUT /v1/acl/role/r", `{"Name": "new", "Description": "d", "Policies": [{"Name": "dev"}, {"Name": "ops"}]}`)
	run(t, a, "", "acl", "role", "update", "-no-merge", "-name", "new", "-policy", "a", "r").want(t, 0)
	a.has(t, "PUT /v1/acl/role/r", `{"Name": "new", "Description": "", "Policies": [{"Name": "a"}]}`)
}

func TestACLAuthMethodsKeepTheirSecrets(t *testing.T) {
	m := &api.ACLAuthMethod{Name: "sso", Type: "OIDC", TokenLocality: "local", MaxTokenTTL: time.Hour, Config: &api.ACLAuthMethodConfig{
		OIDCClientID: "id", OIDCClientSecret: "hush", ClaimMappings: map[string]string{"sub": "user"},
	}}
	a := newAgent(t, map[string]any{"GET /v1/acl/auth-method/sso": m, "PUT /v1/acl/auth-method/sso": m, "PUT /v1/acl/auth-method": m})
	o := run(t, a, "", "acl", "auth-method", "info", "sso")
	o.want(t, 0, "Max Token TTL     = 1h0m0s", "OIDC Client ID             = id", "OIDC Client Secret         = redacted", "{sub: user}")
	if strings.Contains(o.out, "hush") {
		t.Errorf("a secret is shown: %s", o.out)
	}
	run(t, a, "", "acl", "auth-method", "update", "-default", "-max-token-ttl", "30m", "sso").want(t, 0)
	a.has(t, "PUT /v1/acl/auth-method/sso", `{"Default": true, "MaxTokenTTL": "30m0s", "TokenLocality": "local"}`)
	create := []string{"acl", "auth-method", "create", "-name", "sso", "-type", "jwt", "-token-locality", "global", "-max-token-ttl", "1h", "-config"}
	for _, config := range []string{`{"JWKSURL": "https://x", "ClockSkewLeeway": "1m"}`, "@" + file(t, "c.json", `{"JWKSURL": "https://x", "ClockSkewLeeway": "1m"}`)} {
		run(t, a, "", append(create, config)...).want(t, 0)
		a.has(t, "PUT /v1/acl/auth-method", `{"Type": "JWT", "TokenLocality": "global"}`)
		if body := a.bodies["PUT /v1/acl/auth-method"]; !strings.Contains(body, `"ClockSkewLeeway":"1m0s"`) || !strings.Contains(body, `"JWKSURL":"https://x"`) {
			t.Errorf("sent %s", body)
		}
	}
	run(t, a, "", append(create, `{"JWKSUrls": "https://x"}`)...).want(t, 1, `unknown key "JWKSUrls"`)
}

func TestACLBindingRules(t *testing.T) {
	r := &api.ACLBindingRule{ID: "b", AuthMethod: "sso", Selector: `x in list.groups`, BindType: "role", BindName: "ops"}
	a := newAgent(t, map[string]any{"GET /v1/acl/binding-rule/b": r, "PUT /v1/acl/binding-rule/b": r, "PUT /v1/acl/binding-rule": r})
	run(t, a, "", "acl", "binding-rule", "info", "b").want(t, 0, `Selector     = "x in list.groups"`)
	run(t, a, "", "acl", "binding-rule", "create", "-auth-method", "sso", "-bind-type", "policy").want(t, 1, "-bind-name is missing")
	run(t, a, "", "acl", "binding-rule", "update", "-no-merge", "-bind-type", "management", "b").want(t, 0)
	a.has(t, "PUT /v1/acl/binding-rule/b", `{"AuthMethod": "sso", "Selector": "", "BindType": "management", "BindName": ""}`)
}

func TestACLExplain(t *testing.T) {
	found := &api.ACLExplainResponse{AccessorID: "a1", Verdict: api.Verdict{Allowed: true, Policy: "dev", Rule: `namespace "dev" { policy = "write" }`}}
	a := newAgent(t, map[string]any{"GET /v1/acl/explain": found})
	run(t, a, "", "acl", "explain", "-accessor", "a1", "-namespace", "dev", "submit-job").wantOut(t,
		"allowed\nAccessor ID = a1\nPolicy      = dev\nRule        = namespace \"dev\" { policy = \"write\" }\n")
	if !a.wasAsked("GET /v1/acl/explain?accessor=a1&capability=submit-job&name=dev&namespace=dev&on=namespace") {
		t.Errorf("asked %v", a.asked)
	}
	found.Verdict = api.Verdict{}
	for args, asked := range map[string]string{
		"node:read":                            "capability=read&on=node",
		"-pool gpu read":                       "capability=read&name=gpu&on=node_pool",
		"-host-volume v mount-read":            "capability=mount-read&name=v&on=host_volume",
		"-namespace dev -variable app/x write": "capability=write&name=dev%2Fapp%2Fx&namespace=dev&on=variable",
	} {
		run(t, a, "", append([]string{"acl", "explain"}, strings.Fields(args)...)...).want(t, 1, "refused", "no rule permits it")
		if !a.wasAsked("GET /v1/acl/explain?" + asked) {
			t.Errorf("%s: asked %v", args, a.asked)
		}
	}
	run(t, a, "", "acl", "explain", "boss:read").want(t, 1, "such as node:read")
	run(t, a, "", "acl", "explain", "-namespace", "*", "submit-job").want(t, 1, "one namespace")
}

func TestPermissionDeniedNamesTheNextCommand(t *testing.T) {
	a := newAgent(t, map[string]any{
		"GET /v1/jobs": &refusal{403, "Permission denied"}, "GET /v1/nodes": &refusal{403, "Permission denied"}, "GET /v1/acl/tokens": &refusal{403, "Permission denied"},
		"GET /v1/acl/token/self": &refusal{403, "Permission denied"},
	})
	run(t, a, "", "job", "status", "-namespace", "dev").want(t, 1, "nomad acl explain -namespace dev list-jobs")
	run(t, a, "", "node", "status").want(t, 1, "nomad acl explain node:read")
	run(t, a, "", "acl", "token", "list").want(t, 1, "management token")
	run(t, a, "", "acl", "token", "self").want(t, 1, "unknown or has expired")
}
