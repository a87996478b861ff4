package attacks

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// routes are the rows of the route table. Reads are in front of PUT, which makes objects of the attacker's own.
func routes(t *testing.T) [][2]string {
	t.Helper()
	files, _ := filepath.Glob("../../../../nomad/httpapi/*/*.go")
	row := regexp.MustCompile(`Method: "(GET|PUT|DELETE|\*)", Pattern: "(/v1/[^"]*)"`)
	var found [][2]string
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range row.FindAllStringSubmatch(string(source), -1) {
			found = append(found, [2]string{strings.Replace(m[1], "*", "PUT", 1), m[2]})
		}
	}
	if len(found) < 150 {
		t.Fatalf("only %d routes were found in the sources", len(found))
	}
	order := map[string]string{"GET": "1", "DELETE": "2", "PUT": "3"}
	slices.SortStableFunc(found, func(a, b [2]string) int { return strings.Compare(order[a[0]], order[b[0]]) })
	return found
}

// routesWithID are those that name an object.
func routesWithID(t *testing.T) [][2]string {
	t.Helper()
	return slices.DeleteFunc(routes(t), func(r [2]string) bool { return !strings.Contains(r[1], ":id") })
}

// bodyFor is a body that the route reads, about the object with the id.
func bodyFor(method, pattern, id string) string {
	job := fmt.Sprintf(`{"Job":{"ID":%q,"Type":"batch","TaskGroups":[{"Name":"g","Count":0,"Tasks":[{"Name":"t","Driver":"raw_exec","Config":{"command":"true"}}]}]}}`, id)
	volumes := fmt.Sprintf(`{"Volumes":[{"ID":%q,"Name":"of mine %s","PluginID":"hp","RequestedCapabilities":[{"AccessMode":"single-node-writer","AttachmentMode":"file-system"}]}]}`, id, id)
	for part, body := range map[string]string{
		"PUT /v1/job/:id": job, "PUT /v1/job/:id/plan": job, "PUT /v1/job/:id/dispatch": fmt.Sprintf(`{"JobID":%q}`, id),
		"PUT /v1/job/:id/revert": fmt.Sprintf(`{"JobID":%q,"JobVersion":0}`, id), "PUT /v1/job/:id/stable": fmt.Sprintf(`{"JobID":%q,"JobVersion":0,"Stable":true}`, id),
		"PUT /v1/job/:id/evaluate": fmt.Sprintf(`{"JobID":%q}`, id), "PUT /v1/job/:id/scale": fmt.Sprintf(`{"Count":1,"Target":{"Group":"g","Job":%q}}`, id),
		"PUT /v1/job/:id/versions/:tag/tag": `{"Version":0}`, "PUT /v1/volume/csi/:id": volumes, "PUT /v1/volume/csi/:id/create": volumes,
		"PUT /v1/client/allocation/:id/pause":  `{"ScheduleState":"run"}`,
		"PUT /v1/client/allocation/:id/signal": `{"Signal":"SIGHUP"}`, "PUT /v1/node/:id/drain": `{"DrainSpec":{}}`, "PUT /v1/node/:id/eligibility": `{"Eligibility":"eligible"}`,
		"PUT /v1/deployment/pause/:id": fmt.Sprintf(`{"DeploymentID":%q,"Pause":true}`, id), "PUT /v1/deployment/promote/:id": fmt.Sprintf(`{"DeploymentID":%q,"All":true}`, id),
		"PUT /v1/deployment/fail/:id": fmt.Sprintf(`{"DeploymentID":%q}`, id), "PUT /v1/deployment/unblock/:id": fmt.Sprintf(`{"DeploymentID":%q}`, id),
		"PUT /v1/deployment/allocation-health/:id": fmt.Sprintf(`{"DeploymentID":%q,"HealthyAllocationIDs":["y"]}`, id),
		"PUT /v1/namespace/:id":                    fmt.Sprintf(`{"Name":%q}`, id), "PUT /v1/node/pool/:id": fmt.Sprintf(`{"Name":%q}`, id), "PUT /v1/quota/:id": fmt.Sprintf(`{"Name":%q}`, id),
		"PUT /v1/acl/policy/:id": fmt.Sprintf(`{"Name":%q,"Rules":""}`, id), "PUT /v1/acl/token/:id": fmt.Sprintf(`{"AccessorID":%q,"Type":"client","Policies":["x"]}`, id),
		"PUT /v1/acl/role/:id": fmt.Sprintf(`{"ID":%q,"Name":"x","Policies":[{"Name":"x"}]}`, id), "PUT /v1/acl/auth-method/:id": fmt.Sprintf(`{"Name":%q}`, id),
		"PUT /v1/acl/binding-rule/:id": fmt.Sprintf(`{"ID":%q}`, id),
	} {
		if part == method+" "+pattern {
			return body
		}
	}
	return "{}"
}

// queriesFor are parameters that routes need besides an id.
var queriesFor = map[string]string{
	"/v1/client/fs/logs/:id": "task=main&type=stdout", "/v1/client/fs/stat/:id": "path=/", "/v1/client/fs/ls/:id": "path=/", "/v1/client/fs/cat/:id": "path=/alloc/logs/main.stdout.0",
	"/v1/client/fs/readat/:id": "path=/alloc/logs/main.stdout.0&offset=0&limit=1", "/v1/client/fs/stream/:id": "path=/alloc/logs/main.stdout.0&follow=false",
	"/v1/volume/csi/:id/detach": "node=" + falseNode,
}

// theirs builds one object of each kind in a namespace that the attacker's token has no right on, and returns their ids.
func theirs(t *testing.T, a *kit.Agent) map[string]string {
	t.Helper()
	at := api.WriteOptions{Namespace: "theirs"}
	for _, name := range []string{"theirs", "mine"} {
		if _, err := a.API.Namespaces().Register(namespace(name), nil); err != nil {
			t.Fatal(err)
		}
	}
	a.Plugin("hp")
	volume := &api.CSIVolume{
		ID: "theirs-vol", Name: "theirs-vol", Namespace: "theirs", PluginID: "hp",
		RequestedCapabilities: []*api.CSIVolumeCapability{{AccessMode: "single-node-writer", AttachmentMode: "file-system"}},
	}
	if _, _, err := a.API.CSIVolumes().Create(volume, &at); err != nil {
		t.Fatal(err)
	}
	job := kit.WithVolume(kit.ShellJob("theirs-job", "echo hello; exec sleep 1000"), "theirs-vol")
	ns, least, most := "theirs", int64(1), int64(5)
	job.Namespace, job.TaskGroups[0].Update = &ns, &api.UpdateStrategy{MaxParallel: new(1), MinHealthyTime: new(time.Hour), HealthyDeadline: new(2 * time.Hour), ProgressDeadline: new(3 * time.Hour)}
	job.TaskGroups[0].Scaling = &api.ScalingPolicy{Min: &least, Max: &most, Enabled: new(true)}
	if _, _, err := a.API.Jobs().Register(job, &at); err != nil {
		t.Fatal(err)
	}
	q := &api.QueryOptions{Namespace: "theirs"}
	ids := map[string]string{"job": "theirs-job", "volume": "theirs-vol", "acl policy": "theirs-pol", "namespace": "theirs"}
	a.Until(30*time.Second, "their objects", func() error {
		allocs, _, err := a.API.Jobs().Allocations("theirs-job", true, q)
		if err != nil || len(allocs) != 1 || allocs[0].ClientStatus != "running" {
			return fmt.Errorf("allocations %v: %w", allocs, err)
		}
		policies, _, err := a.API.Scaling().ListPolicies(q)
		if err != nil || len(policies) != 1 {
			return fmt.Errorf("scaling policies %v: %w", policies, err)
		}
		ids["allocation"], ids["evaluation"], ids["deployment"], ids["scaling policy"] = allocs[0].ID, allocs[0].EvalID, "", policies[0].ID
		deployment, _, err := a.API.Jobs().LatestDeployment("theirs-job", q)
		if err != nil || deployment == nil {
			return fmt.Errorf("deployment: %w", err)
		}
		ids["deployment"] = deployment.ID
		return nil
	})
	ids["accessor"] = a.ClientToken("theirs-pol", `namespace "theirs" { policy = "write" }`).AccessorID
	role, _, err := a.API.ACLRoles().Create(&api.ACLRole{Name: "theirs-role", Policies: []*api.ACLRolePolicyLink{{Name: "theirs-pol"}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ids["role"], ids["name of a role"] = role.ID, "theirs-role"
	if _, err := a.API.NodePools().Register(&api.NodePool{Name: "theirs-pool"}, nil); err != nil {
		t.Fatal(err)
	}
	ids["node pool"] = "theirs-pool"
	return ids
}

// TestForeignObjectsAnswerLikeMissingOnes asks each route with an id for objects of a foreign namespace and for objects that do
// not exist, each in several namespaces. The responses are the same bytes, and what is foreign stays as it is.
func TestForeignObjectsAnswerLikeMissingOnes(t *testing.T) {
	t.Parallel()
	a := kit.PrepareGuarded(t)
	a.Launch()
	foreign := theirs(t, a)
	attacker := a.ClientToken("mine", `
		namespace "default" { policy = "write" }
		namespace "mine" { policy = "write" }
		node_pool "mine" { policy = "write" }
		node { policy = "read" }
		plugin { policy = "read" }`)
	web := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableCompression: true}}
	t.Cleanup(web.CloseIdleConnections)
	uuids, numbers := regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|vol-[0-9a-f]{32}`), regexp.MustCompile(`\d+`)
	ask := func(method, pattern, query, id string) string {
		path := strings.NewReplacer(":id", id, ":tag", "x").Replace(pattern) + "?" + queriesFor[pattern] + "&" + query
		r, err := http.NewRequest(method, a.API.Address()+path, strings.NewReader(bodyFor(method, pattern, id)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Nomad-Token", attacker.SecretID)
		response, err := web.Do(r)
		if err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil {
			return fmt.Sprintf("%s %s: %v", method, path, err)
		}
		text := uuids.ReplaceAllString(strings.ReplaceAll(strings.ReplaceAll(string(body), id, "ID"), id[:min(8, len(id))], "ID"), "UUID")
		head := response.Header
		if method != http.MethodGet {
			text = numbers.ReplaceAllString(text, "N")
			head.Del("X-Nomad-Index")
		}
		for _, name := range []string{"Date", "X-Nomad-LastContact", "Content-Length"} {
			head.Del(name)
		}
		var lines []string
		for _, name := range slices.Sorted(maps.Keys(head)) {
			lines = append(lines, name+": "+head.Get(name))
		}
		return fmt.Sprintf("%d\n%s\n\n%s", response.StatusCode, strings.Join(lines, "\n"), text)
	}
	before := snapshot(t, a, foreign)
	unlisted(t, a, attacker.SecretID, foreign)
	pairs := 0
	for _, route := range routesWithID(t) {
		for i, kind := range slices.Sorted(maps.Keys(foreign)) {
			there, absent := foreign[kind], fmt.Sprintf("absent-%c", 'a'+i)
			if uuids.MatchString(there) {
				absent = fmt.Sprintf("%08x-0000-4000-8000-00000000dead", 0xdeadbe00+i)
			}
			for _, query := range []string{"", "namespace=mine", "namespace=*"} {
				var one, two string
				for range 3 { // what tasks of this test write meanwhile moves indexes
					one, two = ask(route[0], route[1], query, there), ask(route[0], route[1], query, absent)
					if one == two || route[0] != http.MethodGet {
						break
					}
				}
				if one != two {
					t.Errorf("%s %s?%s with a foreign %s:\n%s\nwith a missing one:\n%s", route[0], route[1], query, kind, one, two)
				}
				pairs++
			}
		}
	}
	t.Logf("%d pairs of requests", pairs)
	if after := snapshot(t, a, foreign); after != before {
		t.Errorf("foreign objects were\n%s\nand are\n%s", before, after)
	}
}

// unlisted reads every list, and searches by prefix: none shows a foreign object.
func unlisted(t *testing.T, a *kit.Agent, secret string, foreign map[string]string) {
	t.Helper()
	needed := map[string]string{
		"/v1/volumes": "type=csi&", "/v1/plugins": "type=csi&", "/v1/volumes/external": "plugin_id=hp&", "/v1/volumes/snapshot": "plugin_id=hp&", "/v1/client/stats": "",
	}
	leaks := func(what string, body []byte) {
		for kind, id := range foreign {
			if strings.Contains(string(body), id) {
				t.Errorf("%s shows a foreign %s:\n%s", what, kind, body)
			}
		}
	}
	read, shown := 0, 0
	for _, route := range routes(t) {
		if route[0] != http.MethodGet || strings.Contains(route[1], ":id") {
			continue
		}
		if route[1] == "/v1/metrics" { // open to all, and its labels have names of jobs and namespaces: docs/threat-model.md
			continue
		}
		for _, query := range []string{"", "namespace=mine", "namespace=*", "namespace=*&prefix=theirs", "namespace=*&prefix=" + foreign["allocation"][:4], "namespace=*&filter=ID+is+not+empty", "namespace=*&per_page=1"} {
			body, code := send(t, a, secret, http.MethodGet, route[1]+"?"+needed[route[1]]+query, "")
			leaks(route[1]+"?"+query, body)
			if read++; code == http.StatusOK {
				shown++
			}
		}
	}
	nodes, _, err := a.API.Nodes().List(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v1/node/" + nodes[0].ID, "/v1/node/" + nodes[0].ID + "/allocations", "/v1/plugin/csi/hp", "/v1/node/pool/default/jobs", "/v1/node/pool/default/nodes", "/v1/node/pool/all/jobs"} {
		for _, query := range []string{"", "namespace=*"} {
			body, _ := send(t, a, secret, http.MethodGet, path+"?"+query, "")
			leaks(path+"?"+query, body)
		}
	}
	for kind, id := range foreign {
		for _, query := range []string{"", "namespace=*"} {
			body, _ := send(t, a, secret, http.MethodPut, "/v1/search/fuzzy?"+query, fmt.Sprintf(`{"Text":%q,"Context":"all"}`, id))
			leaks("a search for a part of the name of "+kind, body)
		}
		for _, prefix := range []string{id[:4], id} {
			for _, in := range []string{"all", "jobs", "allocs", "evals", "deployment", "volumes", "namespaces", "node_pools", "scaling_policy"} {
				for _, query := range []string{"", "namespace=*"} {
					body, _ := send(t, a, secret, http.MethodPut, "/v1/search?"+query, fmt.Sprintf(`{"Prefix":%q,"Context":%q}`, prefix, in))
					leaks("a search for "+kind+" in "+in, body)
				}
			}
		}
	}
	t.Logf("%d reads of lists, %d were served", read, shown)
	if shown < 50 {
		t.Error("hardly any list was served")
	}
}

// send sends a request with a token and returns the body and the status of the response.
func send(t *testing.T, a *kit.Agent, secret, method, path, body string) ([]byte, int) {
	t.Helper()
	r, err := http.NewRequest(method, a.API.Address()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Nomad-Token", secret)
	response, err := (&http.Client{Timeout: 30 * time.Second}).Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer response.Body.Close()
	out, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return out, response.StatusCode
}

// snapshot is what the foreign objects are.
func snapshot(t *testing.T, a *kit.Agent, ids map[string]string) string {
	t.Helper()
	var all strings.Builder
	for _, path := range []string{
		"/v1/job/" + ids["job"], "/v1/evaluation/" + ids["evaluation"], "/v1/deployment/" + ids["deployment"], "/v1/scaling/policy/" + ids["scaling policy"],
		"/v1/acl/policy/" + ids["acl policy"], "/v1/acl/token/" + ids["accessor"], "/v1/acl/role/" + ids["role"], "/v1/node/pool/" + ids["node pool"], "/v1/namespace/theirs",
	} {
		var object map[string]any
		if _, err := a.API.Raw().Query(path, &object, &api.QueryOptions{Namespace: "theirs"}); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		line, _ := json.Marshal(object)
		fmt.Fprintf(&all, "%s %s\n", path, line)
	}
	stub, _, err := a.API.Allocations().Info(ids["allocation"], &api.QueryOptions{Namespace: "theirs"})
	if err != nil {
		t.Fatal(err)
	}
	volume, _, err := a.API.CSIVolumes().Info(ids["volume"], &api.QueryOptions{Namespace: "theirs"})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&all, "%s %s %d writers", stub.ClientStatus, cmp.Or(stub.DesiredStatus, "none"), len(volume.WriteAllocs))
	return all.String()
}
