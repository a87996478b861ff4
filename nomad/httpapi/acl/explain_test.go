package acl_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

func TestExplainNamesTheDecidingRule(t *testing.T) {
	t.Parallel()
	s, h := start(true)
	s.handlers = append(s.handlers, s.gate.Handlers()...)
	token := func(path, secret, body string) (made api.ACLToken) {
		if w := send(h, "PUT", path, secret, body); w.Code != 200 || json.Unmarshal(w.Body.Bytes(), &made) != nil {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
		return made
	}
	root := token("/v1/acl/bootstrap", "", "")
	if w := send(h, "PUT", "/v1/acl/policy/dev", root.SecretID, `{"Name": "dev", "Rules": "namespace \"dev-*\" { policy = \"read\" }"}`); w.Code != 200 {
		t.Fatal(w.Code, w.Body)
	}
	dev := token("/v1/acl/token", root.SecretID, `{"Name": "dev", "Type": "client", "Policies": ["dev"]}`)
	const rule = `"Policy":"dev","Rule":"namespace \"dev-*\" { policy = \"read\" }"`
	for _, x := range []struct {
		secret, query string
		code          int
		text          string
	}{
		{dev.SecretID, "on=namespace&name=dev-1&capability=read-job", 200, `"Allowed":true,` + rule},
		{dev.SecretID, "on=namespace&name=dev-1&capability=submit-job", 200, `"Allowed":false,` + rule},
		{dev.SecretID, "on=node&capability=read", 200, `"Allowed":false,"Policy":"","Rule":""`},
		{dev.SecretID, "on=node&capability=read", 200, `"AccessorID":"` + dev.AccessorID},
		{root.SecretID, "on=namespace&name=dev-1&capability=read-job&accessor=" + dev.AccessorID, 200, `"Allowed":true,` + rule},
		{root.SecretID, "on=node&capability=read&accessor=x", 404, "ACL token not found"},
		{dev.SecretID, "on=node&capability=read&accessor=" + root.AccessorID, 403, "Permission denied"},
		{"", "on=node&capability=read", 200, `"AccessorID":"anonymous"`},
		{dev.SecretID, "on=node&capability=raed", 400, `unknown capability "raed"`},
		{dev.SecretID, "", 400, "no capabilities on"},
	} {
		w := send(h, "GET", "/v1/acl/explain?"+x.query, x.secret, "")
		if w.Code != x.code || !strings.Contains(w.Body.String(), x.text) {
			t.Errorf("%s: %d %s, want %d %s", x.query, w.Code, w.Body, x.code, x.text)
		}
	}
}
