package attacks

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// named returns a body with a namespace in all of its objects, and bodies with it in one of them.
func named(body, namespace string) []string {
	var objects []map[string]any
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			objects = append(objects, v)
			for _, key := range slices.Sorted(maps.Keys(v)) {
				walk(v[key])
			}
		case []any:
			for _, e := range v {
				walk(e)
			}
		}
	}
	var all []string
	for i := -1; i < max(len(objects), 1); i++ {
		var tree any
		if json.Unmarshal([]byte(body), &tree) != nil {
			return []string{body}
		}
		objects = nil
		walk(tree)
		for at, o := range objects {
			if i < 0 || at == i {
				o["Namespace"] = namespace
			}
		}
		text, _ := json.Marshal(tree)
		all = append(all, string(text))
	}
	return all
}

// TestNamespacesAreNotConfused sends each write about objects of a foreign namespace, with that namespace, the own one, all and
// none in the query and in each object of the body. Nothing in the foreign namespace changes.
func TestNamespacesAreNotConfused(t *testing.T) {
	t.Parallel()
	a := kit.PrepareGuarded(t)
	a.Launch()
	foreign := theirs(t, a)
	attacker := a.ClientToken("mine", `
		namespace "mine" { policy = "write" }
		plugin { policy = "read" }`)
	routes := slices.DeleteFunc(routesWithID(t), func(r [2]string) bool { return r[0] == http.MethodGet })
	bodies := map[string]string{
		"/v1/jobs": bodyFor("PUT", "/v1/job/:id", "theirs-job"), "/v1/validate/job": bodyFor("PUT", "/v1/job/:id", "theirs-job"),
		"/v1/volumes":          strings.Replace(bodyFor("PUT", "/v1/volume/csi/:id", "stolen"), `"PluginID"`, `"ExternalID":"`+external(t, a)+`","PluginID"`, 1),
		"/v1/volumes/snapshot": `{"Snapshots":[{"SourceVolumeID":"theirs-vol","PluginID":"hp","Name":"copy"}]}`,
		"/v1/evaluations":      fmt.Sprintf(`{"EvalIDs":[%q]}`, foreign["evaluation"]),
	}
	for path := range bodies {
		routes = append(routes, [2]string{"PUT", path}, [2]string{"DELETE", path})
	}
	before, rows := snapshot(t, a, foreign), list(t, a)
	web := &http.Client{Timeout: 30 * time.Second}
	t.Cleanup(web.CloseIdleConnections)
	sent, served := 0, 0
	for _, route := range routes {
		method, pattern := route[0], route[1]
		ids := slices.Sorted(maps.Values(foreign))
		if !strings.Contains(pattern, ":id") {
			ids = ids[:1]
		}
		for _, id := range ids {
			body := bodyFor(method, pattern, id)
			if bodies[pattern] != "" {
				body = bodies[pattern]
			}
			for _, query := range []string{"", "mine", "theirs", "*"} {
				for _, namespace := range []string{"mine", "theirs", "*"} {
					for _, b := range named(body, namespace) {
						path := strings.NewReplacer(":id", id, ":tag", "x").Replace(pattern) + "?" + queriesFor[pattern] + "&namespace=" + query
						r, err := http.NewRequest(method, a.API.Address()+path, strings.NewReader(b))
						if err != nil {
							t.Fatal(err)
						}
						r.Header.Set("X-Nomad-Token", attacker.SecretID)
						response, err := web.Do(r)
						if err != nil {
							t.Fatalf("%s %s %s: %v", method, path, b, err)
						}
						text, _ := io.ReadAll(response.Body)
						_ = response.Body.Close()
						sent++
						if response.StatusCode != http.StatusOK {
							continue
						}
						served++
						if after := list(t, a); after != rows {
							t.Fatalf("%s %s %s: %d %s\nbefore: %s\nafter: %s", method, path, b, response.StatusCode, text, rows, after)
						}
					}
				}
			}
		}
	}
	t.Logf("%d requests, %d of them were served", sent, served)
	if served < 20 {
		t.Error("hardly any request was served in the own namespace")
	}
	if after := snapshot(t, a, foreign); after != before {
		t.Errorf("foreign objects were\n%s\nand are\n%s", before, after)
	}

	mine := "mine"
	job := kit.WithVolume(kit.ShellJob("thief", "exec sleep 1000"), "theirs-vol")
	job.Namespace = &mine
	out, _, err := a.As(attacker.SecretID).Jobs().Register(job, &api.WriteOptions{Namespace: mine})
	if err != nil {
		t.Fatal(err)
	}
	a.Until(30*time.Second, "the job that wants the foreign volume not to be placed", func() error {
		e, _, err := a.API.Evaluations().Info(out.EvalID, &api.QueryOptions{Namespace: mine})
		if err != nil || e.Status != "complete" || len(e.FailedTGAllocs) != 1 {
			return fmt.Errorf("evaluation %+v: %w", e, err)
		}
		return nil
	})
	if after := snapshot(t, a, foreign); after != before {
		t.Errorf("after the claim, foreign objects are\n%s", after)
	}
}

// external is the id at the provider of the foreign volume.
func external(t *testing.T, a *kit.Agent) string {
	t.Helper()
	v, _, err := a.API.CSIVolumes().Info("theirs-vol", &api.QueryOptions{Namespace: "theirs"})
	if err != nil {
		t.Fatal(err)
	}
	return v.ExternalID
}

// list is what is in the foreign namespace.
func list(t *testing.T, a *kit.Agent) string {
	t.Helper()
	var all strings.Builder
	for _, path := range []string{"/v1/jobs", "/v1/volumes", "/v1/evaluations", "/v1/deployments", "/v1/scaling/policies"} {
		var rows []map[string]any
		if _, err := a.API.Raw().Query(path, &rows, &api.QueryOptions{Namespace: "theirs"}); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, r := range rows {
			fmt.Fprintf(&all, "%s %v %v\n", path, r["ID"], r["ModifyIndex"])
		}
	}
	return all.String()
}
