package attacks

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// TestPathsDoNotLeaveTheirRule requests variables of others by paths that begin with, or lead back from, a permitted one.
func TestPathsDoNotLeaveTheirRule(t *testing.T) {
	t.Parallel()
	a := kit.PrepareGuarded(t)
	a.Launch()
	a.Ready(1)
	if _, err := a.API.Namespaces().Register(namespace("theirs"), nil); err != nil {
		t.Fatal(err)
	}
	const secret = "canary-of-another"
	foreign := &api.Variable{Path: "theirs/db", Items: map[string]string{"password": secret}}
	for _, ns := range []string{"default", "theirs"} {
		if _, _, err := a.API.Variables().Create(foreign, &api.WriteOptions{Namespace: ns}); err != nil {
			t.Fatal(err)
		}
	}
	token := a.ClientToken("mine", `namespace "default" { variables { path "mine/*" { capabilities = ["read", "write", "destroy", "list"] } } }`).SecretID
	if _, _, err := a.As(token).Variables().Create(&api.Variable{Path: "mine/db", Items: map[string]string{"k": "v"}}, nil); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"theirs/db", "mine/../theirs/db", "mine/%2e%2e/theirs/db", "mine%2f..%2ftheirs%2fdb", "mine/..%5ctheirs/db", "./theirs/db", "/theirs/db", "%2ftheirs/db", "theirs/db/",
		"theirs%00mine/db", "mine/%00/../../theirs/db", "mine/%252e%252e/theirs/db", "mine;/theirs/db", strings.Repeat("mine/../", 1000) + "theirs/db", strings.Repeat("mine/", 1000) + "db",
		"theirs/db?namespace=default&prefix=mine", "mine/db?namespace=theirs", "theirs/db?namespace=theirs", "theirs/db?namespace=default%00theirs", "theirs/db?namespace=*",
	} {
		for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodPut} {
			out, code := send(t, a, token, method, "/v1/var/"+path, `{"Path":"theirs/db","Items":{"password":"changed"}}`)
			if code < 400 || code >= 500 || bytes.Contains(out, []byte(secret)) {
				t.Errorf("%s %.60q: %d %.200s", method, path, code, out)
			}
		}
	}
	if out, code := send(t, a, token, http.MethodGet, "/v1/vars?prefix=theirs&namespace=*", ""); code != http.StatusOK && code != http.StatusForbidden || bytes.Contains(out, []byte("theirs/")) {
		t.Errorf("the list shows variables of others: %d %s", code, out)
	}
	for _, ns := range []string{"default", "theirs"} {
		v, _, err := a.API.Variables().Read("theirs/db", &api.QueryOptions{Namespace: ns})
		if err != nil || v.Items["password"] != secret {
			t.Errorf("the variable in %s: %v %v", ns, v, err)
		}
	}
}
