package e2e

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// badJob is a job of which one thing is wrong: members of the job, its group or its task.
type badJob struct {
	name, kind       string
	job, group, task string
	groups           int
	says             []string
	// code is the answer's, 400 when it is 0.
	code int
}

func (b badJob) body() string {
	members := func(first string, more ...string) string {
		for _, m := range more {
			if m != "" {
				first += "," + m
			}
		}
		return "{" + first + "}"
	}
	kind := b.kind
	if kind == "" {
		kind = "service"
	}
	task := members(`"Name":"t","Driver":"raw_exec","Config":{"command":"/bin/true"}`, b.task)
	groups := []string{members(`"Name":"g","Tasks":[`+task+`]`, b.group)}
	for i := range b.groups {
		groups = append(groups, fmt.Sprintf(`{"Name":"g%d","Tasks":[{"Name":"t","Driver":"raw_exec"}]}`, i))
	}
	return `{"Job":` + members(`"ID":"bad","Type":"`+kind+`","TaskGroups":[`+strings.Join(groups, ",")+`]`, b.job) + `}`
}

const (
	inGroup = `group "g"`
	inTask  = `task "t"`
)

var badJobs = []badJob{
	// Contradictory update blocks.
	{name: "healthy after the deadline", group: `"Update":{"MinHealthyTime":600000000000}`, says: []string{inGroup, "update min_healthy_time 10m0s is not below healthy_deadline 5m0s"}},
	{name: "no progress in time", group: `"Update":{"HealthyDeadline":900000000000}`, says: []string{inGroup, "update healthy_deadline 15m0s is not below progress_deadline 10m0s"}},
	{name: "never healthy", group: `"Update":{"HealthyDeadline":-1}`, says: []string{inGroup, "update healthy_deadline must be positive"}},
	{name: "nothing to promote", group: `"Update":{"AutoPromote":true}`, says: []string{inGroup, "update auto_promote needs canaries"}},
	{name: "negative parallel", group: `"Update":{"MaxParallel":-1}`, says: []string{inGroup, "update max_parallel -1 is negative"}},
	{name: "negative canaries", group: `"Update":{"Canary":-1}`, says: []string{inGroup, "update canary -1 is negative"}},
	{name: "more than all nodes", kind: "system", group: `"Update":{"Canary":101}`, says: []string{inGroup, "update canary 101 is a percentage"}},
	{name: "unknown health", group: `"Update":{"HealthCheck":"vibes"}`, says: []string{inGroup, `update health_check "vibes" is not one of checks, task_states, manual`}},
	{name: "update of a batch job", kind: "batch", group: `"Update":{"MaxParallel":1}`, says: []string{inGroup, "update is for service and system jobs"}},
	{name: "of the whole job", job: `"Update":{"MaxParallel":1,"HealthyDeadline":900000000000}`, says: []string{inGroup, "update healthy_deadline 15m0s is not below progress_deadline"}},
	{name: "ends too late", task: `"KillTimeout":900000000000`, says: []string{inGroup, inTask, "kill_timeout 15m0s is above update.progress_deadline 10m0s"}},
	{name: "ends before it starts", task: `"KillTimeout":-1`, says: []string{inGroup, inTask, "kill_timeout is negative"}},
	{name: "migrate", group: `"Migrate":{"MinHealthyTime":600000000000}`, says: []string{inGroup, "migrate min_healthy_time 10m0s is above healthy_deadline"}},
	{name: "reschedule twice", group: `"ReschedulePolicy":{"Attempts":2,"Unlimited":true}`, says: []string{inGroup, "reschedule has 2 attempts and is unlimited"}},
	{name: "restart never ends", task: `"RestartPolicy":{"Mode":"delay","Attempts":0}`, says: []string{inGroup, inTask, "restart mode delay needs attempts"}},
	{name: "lost and stopped", group: `"Disconnect":{"LostAfter":1000000000,"StopOnClientAfter":1000000000}`, says: []string{inGroup, "disconnect has lost_after and stop_on_client_after"}},

	// Canaries of exclusive volumes.
	{
		name:  "canary of a single writer",
		group: `"Update":{"Canary":1},"Volumes":{"data":{"Type":"csi","Source":"v","AccessMode":"single-node-writer","AttachmentMode":"file-system"}}`,
		says:  []string{inGroup, `volume "data"`, "a canary can never get a volume with access mode single-node-writer"},
	},
	{
		name:  "canary per allocation",
		group: `"Update":{"Canary":1},"Volumes":{"data":{"Type":"csi","Source":"v","PerAlloc":true,"AccessMode":"multi-node-multi-writer","AttachmentMode":"file-system"}}`,
		says:  []string{inGroup, `volume "data"`, "per_alloc is not possible with canaries"},
	},

	// Spreads, operands and versions.
	{name: "spread too wide", group: `"Spreads":[{"Attribute":"${node.datacenter}","Weight":50,"SpreadTarget":[{"Value":"a","Percent":60},{"Value":"b","Percent":50}]}]`, says: []string{inGroup, `spread targets of "${node.datacenter}" ask for 110 percent`}},
	{name: "spread of the job", job: `"Spreads":[{"Attribute":"x","Weight":50,"SpreadTarget":[{"Value":"a","Percent":101}]}]`, says: []string{"job: spread targets of", "101 percent"}},
	{name: "spread target below zero", group: `"Spreads":[{"Attribute":"x","Weight":50,"SpreadTarget":[{"Value":"a","Percent":-1}]}]`, says: []string{"TaskGroups", "Percent"}},
	{name: "spread weight", group: `"Spreads":[{"Attribute":"x","Weight":101}]`, says: []string{inGroup, "spread weight 101"}},
	{name: "operand of the job", job: `"Constraints":[{"LTarget":"x","RTarget":"y","Operand":"~"}]`, says: []string{"job: constraint operator", `"~" is not known`}},
	{name: "operand of a group", group: `"Constraints":[{"LTarget":"x","RTarget":"y","Operand":"=~"}]`, says: []string{inGroup, `constraint operator "=~" is not known`}},
	{name: "operand of a task", task: `"Constraints":[{"LTarget":"x","RTarget":"y","Operand":"IN"}]`, says: []string{inGroup, inTask, `constraint operator "IN" is not known`}},
	{name: "operand of an affinity", task: `"Affinities":[{"LTarget":"x","RTarget":"y","Operand":"distinct_hosts","Weight":1}]`, says: []string{inGroup, inTask, `affinity operator "distinct_hosts" is not known`}},
	{name: "operand of a device", task: `"Resources":{"Devices":[{"Name":"gpu","Constraints":[{"LTarget":"x","Operand":"~"}]}]}`, says: []string{inGroup, inTask, `device "gpu"`, `constraint operator "~"`}},
	{name: "version", group: `"Constraints":[{"LTarget":"x","RTarget":"about 3","Operand":"version"}]`, says: []string{inGroup, `constraint version "about 3"`}},
	{name: "semver", task: `"Constraints":[{"LTarget":"x","RTarget":">= 1.x","Operand":"semver"}]`, says: []string{inGroup, inTask, `constraint semver ">= 1.x"`}},
	{name: "affinity version", task: `"Affinities":[{"LTarget":"x","RTarget":"old","Operand":"version","Weight":1}]`, says: []string{inGroup, inTask, `affinity version "old"`}},
	{name: "regexp", task: `"Constraints":[{"LTarget":"x","RTarget":"(","Operand":"regexp"}]`, says: []string{inGroup, inTask, "constraint regexp"}},
	{name: "distinct_property", group: `"Constraints":[{"LTarget":"x","RTarget":"none","Operand":"distinct_property"}]`, says: []string{inGroup, `distinct_property count "none"`}},

	// Periodic and parameterized jobs.
	{name: "cron never fires", kind: "batch", job: `"Periodic":{"Enabled":true,"Specs":["0 0 31 2 *"]}`, says: []string{`periodic cron "0 0 31 2 *" never fires`}},
	{name: "cron of the past", kind: "batch", job: `"Periodic":{"Enabled":true,"Spec":"0 0 0 1 1 * 1999"}`, says: []string{`never fires`}},
	{name: "no cron", kind: "batch", job: `"Periodic":{"Enabled":true,"Specs":["whenever"]}`, says: []string{`periodic cron "whenever"`}},
	{name: "time zone", kind: "batch", job: `"Periodic":{"Enabled":true,"Specs":["@daily"],"TimeZone":"Moon/Sea"}`, says: []string{`time_zone "Moon/Sea" is not known`}},
	{name: "periodic service", job: `"Periodic":{"Enabled":true,"Specs":["@daily"]}`, says: []string{"periodic is for batch"}},
	{name: "meta twice", kind: "batch", job: `"ParameterizedJob":{"MetaRequired":["k"],"MetaOptional":["k"]}`, says: []string{`parameterized meta key "k" is required and optional`}},
	{name: "payload", kind: "batch", job: `"ParameterizedJob":{"Payload":"maybe"}`, says: []string{`parameterized payload "maybe" is not one of`}},

	// Numbers.
	{name: "negative count", group: `"Count":-1`, says: []string{inGroup, "count -1 is negative"}},
	{name: "too many", group: `"Count":50001`, says: []string{"50001 allocations, at most 50000"}},
	{name: "negative memory", task: `"Resources":{"MemoryMB":-5}`, says: []string{inGroup, inTask, "memory -5 MB"}},
	{name: "negative cpu", task: `"Resources":{"CPU":-5}`, says: []string{inGroup, inTask, "resources need cpu or cores"}},
	{name: "negative disk", group: `"EphemeralDisk":{"SizeMB":-5}`, says: []string{inGroup, "ephemeral_disk"}},
	{name: "devices near cores", task: `"Resources":{"Cores":1,"NUMA":{"Affinity":"require","Devices":["gpu"]}}`, says: []string{inGroup, inTask, `numa devices ["gpu"] are not supported`}},
	{name: "number too large", group: `"Count":1e300`, says: []string{"Count"}},
	{name: "20,000 groups", groups: 20_000, says: []string{"job has 20001 groups, the limit is 10000"}},
	{name: "100,000 groups", groups: 100_000, says: []string{"Job.TaskGroups is too large: 200005 objects in a request body"}, code: http.StatusRequestEntityTooLarge},
}

// ask sends a request and answers the code and the text.
func ask(t *testing.T, a *kit.Agent, method, path, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, a.API.Address()+path, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Body.Close() }()
	text, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.StatusCode, string(text)
}

// TestBadJobsOverHTTP: every mistake is the caller's, its place is named, and nothing is written.
func TestBadJobsOverHTTP(t *testing.T) {
	a := kit.Start(t)
	_, before := ask(t, a, "GET", "/v1/jobs", "")
	begun := a.MemoryKB(a.PID(), "Rss")
	for _, b := range badJobs {
		body, start := b.body(), time.Now()
		for _, path := range []string{"/v1/jobs", "/v1/job/bad/plan", "/v1/job/bad"} {
			code, text := ask(t, a, "PUT", path, body)
			if code != cmp.Or(b.code, http.StatusBadRequest) {
				t.Errorf("%s: %s: code %d: %.300s", b.name, path, code, text)
			}
			for _, want := range b.says {
				if !strings.Contains(text, want) {
					t.Errorf("%s: %s: no %q in %.300q", b.name, path, want, text)
				}
			}
		}
		if b.groups > 0 {
			t.Logf("%s: %d MiB refused three times in %v; memory went from %d to %d MiB", b.name, len(body)>>20, time.Since(start),
				begun>>10, a.MemoryKB(a.PID(), "Rss")>>10)
		}
	}
	if _, after := ask(t, a, "GET", "/v1/jobs", ""); after != before || strings.TrimSpace(after) != "[]" {
		t.Errorf("jobs: %s", after)
	}
	for _, path := range []string{"/v1/evaluations", "/v1/allocations", "/v1/deployments"} {
		if _, text := ask(t, a, "GET", path, ""); strings.TrimSpace(text) != "[]" {
			t.Errorf("%s: %s", path, text)
		}
	}
}

func TestBadPayloadsOverHTTP(t *testing.T) {
	a := kit.Start(t)
	good := badJob{kind: "batch", job: `"ParameterizedJob":{"MetaRequired":["k"]}`}
	if code, text := ask(t, a, "PUT", "/v1/jobs", good.body()); code != http.StatusOK {
		t.Fatalf("%d %s", code, text)
	}
	dispatch := func(size int, meta string) (int, string) {
		payload := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("x"), size))
		return ask(t, a, "PUT", "/v1/job/bad/dispatch", fmt.Sprintf(`{"Payload":%q,"Meta":{%s}}`, payload, meta))
	}
	for _, c := range []struct {
		size int
		meta string
		says string
	}{
		{16<<10 + 1, `"k":"v"`, "Payload exceeds maximum size; 16385 > 16384"},
		{500_000, `"k":"v"`, "Payload exceeds maximum size; 500000 > 16384"},
		{1, ``, "did not provide required meta keys: [k]"},
		{1, `"k":"v","other":"v"`, "unpermitted metadata keys: [other]"},
	} {
		if code, text := dispatch(c.size, c.meta); code != http.StatusBadRequest || !strings.Contains(text, c.says) {
			t.Errorf("%d bytes, meta {%s}: code %d: %.300s", c.size, c.meta, code, text)
		}
	}
	if code, text := dispatch(2<<20, `"k":"v"`); code != http.StatusRequestEntityTooLarge {
		t.Errorf("2 MiB: code %d: %.300s", code, text)
	}
	var jobs []struct{ ID string }
	if _, text := ask(t, a, "GET", "/v1/jobs", ""); json.Unmarshal([]byte(text), &jobs) != nil || len(jobs) != 1 {
		t.Errorf("jobs: %s", text)
	}
	if code, text := dispatch(16<<10, `"k":"v"`); code != http.StatusOK {
		t.Errorf("the largest payload: code %d: %s", code, text)
	}
}
