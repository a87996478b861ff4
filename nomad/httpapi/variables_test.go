package httpapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/httpapi"
)

// served serves the API over a server of its own, which has a root key.
func served(t *testing.T, accessControl bool) (http.Handler, *nomad.Server) {
	t.Helper()
	s, err := nomad.New(nomad.Config{
		Name: "s1", Region: "global", Datacenter: "dc1", Bind: "127.0.0.1:0", Log: hclog.NewNullLogger(), AccessControl: accessControl, Workers: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		keys, err := wire.KeyringPublic.Call(t.Context(), s.Caller(), &api.QueryOptions{})
		if err == nil && len(keys.Keys) > 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("there is no root key: %v", err)
		}
	}
	return httpapi.New(httpapi.Config{Servers: s.Caller(), Region: "global", AccessControl: accessControl}), s
}

// variable is the body of a response. It has no field that an api.Variable does not have.
func variable(t *testing.T, w *httptest.ResponseRecorder) (v api.Variable) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(w.Body.String()))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	return v
}

// A variable beyond the quota of its namespace is refused with 429, not with 409: the body of a conflict is a variable.
func TestQuotaOfVariables(t *testing.T) {
	t.Parallel()
	h, _ := served(t, false)
	for _, c := range []struct {
		path, body string
		code       int
		text       string
	}{
		{"quota", `{"Name":"team","Limits":[{"Region":"global","RegionLimit":{"Storage":{"VariablesMB":-1}}}]}`, 200, ""},
		{"namespace/a", `{"Name":"a","Quota":"team"}`, 200, ""},
		{"var/p?namespace=a", `{"Items":{"k":"v"}}`, 429, `variable "p": quota limit hit: team: variables exhausted (0 bytes in use, 37 more asked, limit 0 MB): delete`},
		{"quota", `{"Name":"team","Limits":[{"Region":"global","VariablesLimit":1}]}`, 200, ""},
		{"var/p?namespace=a", `{"Items":{"k":"v"}}`, 200, ""},
	} {
		if w := send(h, "PUT", "/v1/"+c.path, c.body); w.Code != c.code || !strings.Contains(w.Body.String(), c.text) {
			t.Errorf("%s: %d %s", c.path, w.Code, w.Body)
		}
	}
	w := send(h, "GET", "/v1/quota/usage/team", "")
	var u api.QuotaUsage
	if err := json.Unmarshal(w.Body.Bytes(), &u); err != nil {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	for _, l := range u.Used {
		if l.RegionLimit.Storage.VariablesMB != 1 || *l.VariablesLimit != 1 {
			t.Errorf("usage %s", w.Body)
		}
	}
	if len(u.Used) != 1 {
		t.Errorf("usage %s", w.Body)
	}
}

// TestVariablesAsRecorded makes the requests that were recorded of the compatible system.
func TestVariablesAsRecorded(t *testing.T) {
	t.Parallel()
	h, _ := served(t, false)
	w := send(h, "PUT", "/v1/var/nomad/jobs/web", `{"Path":"nomad/jobs/web","Items":{"k":"v1"}}`)
	first := variable(t, w)
	index := w.Header().Get("X-Nomad-Index")
	if w.Code != 200 || first.Items["k"] != "v1" || first.Namespace != "default" || first.CreateTime == 0 || first.ModifyTime != first.CreateTime || first.Lock != nil {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	w = send(h, "GET", "/v1/var/nomad/jobs/web", "")
	if v := variable(t, w); v.Items["k"] != "v1" || w.Header().Get("X-Nomad-Index") != index || v.VariableMeta != first.VariableMeta {
		t.Errorf("%s %v", w.Body, w.Header())
	}
	w = send(h, "PUT", "/v1/var/nomad/jobs/web?cas="+index, `{"Items":{"k":"v2"}}`)
	if v := variable(t, w); w.Code != 200 || v.CreateIndex != first.CreateIndex || v.ModifyIndex <= first.ModifyIndex {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	now := w.Header().Get("X-Nomad-Index")
	w = send(h, "PUT", "/v1/var/nomad/jobs/web?cas="+index, `{"Items":{"k":"v3"}}`)
	if v := variable(t, w); w.Code != 409 || v.Items["k"] != "v2" || w.Header().Get("X-Nomad-Index") != now || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("%d %s %v", w.Code, w.Body, w.Header())
	}
	for _, c := range []struct{ path, body, text string }{
		{"app/y", `{"Items":{}}`, "variable missing required Items object"},
		{"nomad/bad", `{"Items":{"a":"1"}}`, `RPC Error:: 400,only paths at "nomad/jobs" or "nomad/job-templates" and below are valid paths under the top-level "nomad" directory`},
		{"app/big", `{"Items":{"a":"` + strings.Repeat("x", 70000) + `"}}`, "RPC Error:: 400,variables are limited to 64KiB in total size"},
	} {
		if w := send(h, "PUT", "/v1/var/"+c.path, c.body); w.Code != 400 || w.Body.String() != c.text {
			t.Errorf("%s: %d %s", c.path, w.Code, w.Body)
		}
	}
	if w := send(h, "PUT", "/v1/var/app/z", `{"Path":"app/other","Items":{"a":"1"}}`); w.Code != 200 || variable(t, w).Path != "app/z" {
		t.Errorf("path of the body: %d %s", w.Code, w.Body)
	}
	expect(t, send(h, "GET", "/v1/var/app/other", ""), 404, "variable not found")
	if w := send(h, "DELETE", "/v1/var/app/z", ""); w.Code != 204 || w.Body.Len() != 0 || w.Header().Get("X-Nomad-Index") == "" {
		t.Errorf("delete: %d %s", w.Code, w.Body)
	}
	w = send(h, "GET", "/v1/vars?prefix=nomad/jobs", "")
	if body := w.Body.String(); w.Code != 200 || !strings.Contains(body, `"Path":"nomad/jobs/web"`) || strings.Contains(body, "Items") || strings.Contains(body, "Lock") {
		t.Errorf("list: %d %s", w.Code, body)
	}
}

func TestLocksAsRecorded(t *testing.T) {
	t.Parallel()
	h, _ := served(t, false)
	w := send(h, "PUT", "/v1/var/app/lock?lock-acquire", `{"Items":{"a":"1"},"Lock":{"TTL":"15s","LockDelay":"1s"}}`)
	got := variable(t, w)
	if w.Code != 200 || got.Lock == nil || got.Lock.ID == "" || got.Lock.TTL != "15s" || got.Lock.LockDelay != "1s" || got.Items["a"] != "1" {
		t.Fatalf("acquire: %d %s", w.Code, w.Body)
	}
	w = send(h, "PUT", "/v1/var/app/lock?lock-acquire", `{"Items":{"a":"1"},"Lock":{"TTL":"15s"}}`)
	if w.Code != 409 || variable(t, w).VariableMeta != (api.VariableMeta{Namespace: "default", Path: "app/lock"}) || strings.Contains(w.Body.String(), "Items") {
		t.Errorf("conflict: %d %s", w.Code, w.Body)
	}
	if w := send(h, "PUT", "/v1/var/app/lock", `{"Items":{"a":"2"}}`); w.Code != 409 || strings.Contains(w.Body.String(), got.Lock.ID) {
		t.Errorf("write without the lock: %d %s", w.Code, w.Body)
	}
	if w := send(h, "GET", "/v1/var/app/lock", ""); w.Code != 200 || strings.Contains(w.Body.String(), got.Lock.ID) {
		t.Errorf("read: %d %s", w.Code, w.Body)
	}
	id := `{"Lock":{"ID":"` + got.Lock.ID + `"}}`
	w = send(h, "PUT", "/v1/var/app/lock?lock-renew", id)
	if v := variable(t, w); w.Code != 200 || v.Lock == nil || v.Lock.ID != got.Lock.ID || v.ModifyIndex != got.ModifyIndex || w.Header().Get("X-Nomad-Index") != "" {
		t.Errorf("renew: %d %s", w.Code, w.Body)
	}
	w = send(h, "PUT", "/v1/var/app/lock?lock-release", id)
	if v := variable(t, w); w.Code != 200 || v.Lock != nil || v.Items != nil || v.ModifyIndex <= got.ModifyIndex || v.ModifyTime != got.ModifyTime {
		t.Errorf("release: %d %s", w.Code, w.Body)
	}
	expect(t, send(h, "PUT", "/v1/var/app/lock?lock-renew", id), 409, "is not locked with this lock ID")
	expect(t, send(h, "PUT", "/v1/var/app/lock?lock-renew&cas=1", id), 400, "give one of the parameters")
	expect(t, send(h, "PUT", "/v1/var/app/lock?cas=-1", `{"Items":{"a":"1"}}`), 400, "invalid cas value")
	for _, path := range []string{"a%2F%2Fb", "a%2F", "%2Fa", "a%2F..%2Fb", "a%00b", strings.Repeat("a/", 1000) + "b"} {
		expect(t, send(h, "PUT", "/v1/var/"+path, `{"Items":{"a":"1"}}`), 400, "invalid path")
		expect(t, send(h, "GET", "/v1/var/"+path, ""), 404, "variable not found")
	}
}

func TestRightsOnVariablesAreJudgedByPath(t *testing.T) {
	t.Parallel()
	h, s := served(t, true)
	boot, err := wire.ACLBootstrap.Call(t.Context(), s.Caller(), &api.ACLBootstrapRequest{})
	if err != nil {
		t.Fatal(err)
	}
	root := boot.Token.SecretID
	token := func(name, rules string) string {
		as := api.WriteRequest{SecretID: root}
		if _, err := wire.ACLPolicyUpsert.Call(t.Context(), s.Caller(), &api.ACLPolicyUpsertRequest{Policies: []*api.ACLPolicy{{Name: name, Rules: rules}}, WriteRequest: as}); err != nil {
			t.Fatal(err)
		}
		out, err := wire.ACLTokenUpsert.Call(t.Context(), s.Caller(), &api.ACLTokenUpsertRequest{Token: &api.ACLToken{Type: "client", Policies: []string{name}}, WriteRequest: as})
		if err != nil {
			t.Fatal(err)
		}
		return out.Token.SecretID
	}
	rule := func(capability string) string {
		return token(capability, `namespace "default" { variables { path "app/*" { capabilities = ["`+capability+`"] } } }`)
	}
	as := func(secret, method, target, body string) *httptest.ResponseRecorder {
		return send(h, method, target, body, "X-Nomad-Token", secret)
	}
	const item = `{"Items":{"a":"1"}}`
	for _, path := range []string{"app/x", "sys/x"} {
		if w := as(root, "PUT", "/v1/var/"+path, item); w.Code != 200 {
			t.Fatal(w.Code, w.Body)
		}
	}
	listed := func(secret string) string { return as(secret, "GET", "/v1/vars?namespace=*", "").Body.String() }
	for _, c := range []struct {
		capability           string
		list                 bool
		read, write, destroy int
	}{
		{"list", true, 403, 403, 403}, {"read", true, 200, 403, 403}, {"write", false, 403, 200, 403}, {"destroy", false, 403, 403, 204},
	} {
		secret := rule(c.capability)
		if got := listed(secret); strings.Contains(got, "app/x") != c.list || strings.Contains(got, "sys/x") {
			t.Errorf("%s lists %s", c.capability, got)
		}
		for what, got := range map[string]int{
			"read":    as(secret, "GET", "/v1/var/app/x", "").Code - c.read,
			"write":   as(secret, "PUT", "/v1/var/app/x", item).Code - c.write,
			"acquire": as(secret, "PUT", "/v1/var/app/l-"+c.capability+"?lock-acquire", item).Code - c.write,
			"destroy": as(secret, "DELETE", "/v1/var/app/gone", "").Code - c.destroy,
		} {
			if got != 0 {
				t.Errorf("%s: the code of %s differs by %d", c.capability, what, got)
			}
		}
		for _, path := range []string{"sys/x", "sys/none"} {
			for _, method := range []string{"GET", "PUT", "DELETE"} {
				if w := as(secret, method, "/v1/var/"+path, item); w.Code != 403 || w.Body.String() != "Permission denied" {
					t.Errorf("%s: %s %s: %d %s", c.capability, method, path, w.Code, w.Body)
				}
			}
		}
		if w := as(secret, "GET", "/v1/var/app/x?namespace=other", ""); w.Code != 403 {
			t.Errorf("%s of another namespace: %d", c.capability, w.Code)
		}
		if w := as(secret, "PUT", "/v1/var/app/x", `{"Namespace":"other","Items":{"a":"1"}}`); w.Code != 403 {
			t.Errorf("%s of the namespace of the body: %d %s", c.capability, w.Code, w.Body)
		}
	}
	if w := as(rule("write"), "PUT", "/v1/var/app/x?cas=1", item); w.Code != 409 || strings.Contains(w.Body.String(), "Items") {
		t.Errorf("a conflict shows items to who may not read: %d %s", w.Code, w.Body)
	}
	if w := send(h, "OPTIONS", "/v1/var/app/x", "", "Origin", "http://ui", "Access-Control-Request-Method", "PUT"); w.Code != 204 || w.Header().Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("preflight: %d %v", w.Code, w.Header())
	}
	if w := send(h, "PUT", "/v1/var/app/x", item, "Origin", "http://ui", "Sec-Fetch-Site", "cross-site", "X-Nomad-Token", root); w.Code != 200 {
		t.Errorf("write of another site with a token: %d %s", w.Code, w.Body)
	}
	open, _ := served(t, false)
	for _, method := range []string{"PUT", "DELETE"} {
		if w := send(open, method, "/v1/var/app/x", item, "Origin", "http://ui", "Sec-Fetch-Site", "cross-site"); w.Code != 403 {
			t.Errorf("%s of another site without access control: %d", method, w.Code)
		}
	}
	if w := send(open, "GET", "/v1/vars", "", "Origin", "http://ui"); w.Code != 200 || w.Header().Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("list by another site: %d %v", w.Code, w.Header())
	}
}
