package command_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/jobspec/examples"
)

func variable(index uint64, items map[string]string) *api.Variable {
	return &api.Variable{VariableMeta: api.VariableMeta{Namespace: "default", Path: "app/x", CreateIndex: 15, ModifyIndex: index}, Items: items}
}

func TestVariablesAreShown(t *testing.T) {
	odd := map[string]string{"a": "1", "b c": "x\n\"${y}\" \\ ü\x1b"}
	v := variable(16, odd)
	a := newAgent(t, map[string]any{
		"GET /v1/vars": []*api.VariableMeta{&v.VariableMeta}, "GET /v1/var/app/x": v, "PUT /v1/var/app/x": v,
		"GET /v1/var/app/none": &refusal{404, "variable not found"},
	})
	run(t, a, "", "var", "list", "-out", "table").wantOut(t, "Namespace  Path   Last Updated\ndefault    app/x  N/A\n")
	run(t, a, "", "var", "list", "-out", "terse", "-filter", "f", "-per-page", "2", "-page-token", "p", "app").wantOut(t, "app/x\n")
	if got := a.asked[len(a.asked)-1]; got != "GET /v1/vars?filter=f&next_token=p&per_page=2&prefix=app" {
		t.Errorf("asked %s", got)
	}
	run(t, a, "", "var", "get", "-out", "table", "app/x").wantOut(t, "Namespace   = default\nPath        = app/x\nCreate Time = N/A\nCheck Index = 16\n\nItems\na   = 1\nb c = x\n      \"${y}\" \\ ü\\u001b\n")
	run(t, a, "", "var", "list").want(t, 0, `"ModifyIndex": 16`)
	run(t, a, "", "var", "get", "-item", "b c", "app/x").wantOut(t, odd["b c"]+"\n")
	run(t, a, "", "var", "get", "-template", "{{.Path}} {{.Items.a}}", "app/x").wantOut(t, "app/x 1\n")
	run(t, a, "", "var", "get", "-item", "c", "app/x").want(t, 1, `does not contain item "c"`)
	run(t, a, "", "var", "get", "-out", "x", "app/x").want(t, 1, "expected one of table, hcl")
	run(t, a, "", "var", "get", "app/none").want(t, 1, "Error retrieving variable: Unexpected response code: 404 (variable not found)")
	run(t, a, "", "var", "get", "app//x").want(t, 1, "each part between slashes needs a name")
	for _, out := range []string{"hcl", "json"} { // what is printed can be written
		shown := run(t, a, "", "var", "get", "-out", out, "app/x").out
		run(t, a, shown, "var", "put", "-").wantOut(t, "Updated variable \"app/x\" with modify index 16\n")
		a.has(t, "PUT /v1/var/app/x", `{"Namespace": "default", "Path": "app/x", "CreateIndex": 0, "ModifyIndex": 16, "CreateTime": 0, "ModifyTime": 0, "Items": `+text(t, odd)+`}`)
		if got := a.asked[len(a.asked)-1]; got != "PUT /v1/var/app/x?cas=16&namespace=default" {
			t.Errorf("asked %s", got)
		}
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestVariablesArePut(t *testing.T) {
	secret := file(t, "secret.txt", "from a file\n")
	hcl := file(t, "x.hcl", "path = \"file/x\"\nnamespace = \"team\"\nitems {\n a = \"file\"\n b = \"file\"\n}\n")
	for _, x := range []struct{ args, input, url, items string }{
		{"-force app/cli a=1 b=2", "", "/v1/var/app/cli?", `{"a": "1", "b": "2"}`},
		{"app/cli a=@" + secret + ` b=\@c c=\- d=- e=`, "stdin", "/v1/var/app/cli?cas=0", `{"a": "from a file\n", "b": "@c", "c": "-", "d": "stdin", "e": ""}`},
		{"-check-index 7 " + hcl + " b=arg", "", "/v1/var/file/x?cas=7&namespace=team", `{"a": "file", "b": "arg"}`},
		{"-force -namespace n app/y @" + hcl, "", "/v1/var/app/y?namespace=n", `{"a": "file", "b": "file"}`},
		{"-force -in json app/y -", `{"Items": {"k": "v"}}`, "/v1/var/app/y?", `{"k": "v"}`},
		{"-", examples.Variable, "/v1/var/nomad/jobs/example?cas=0", `{"user": "me", "password": "change-me"}`},
		{"-", examples.VariableJSON, "/v1/var/nomad/jobs/example?cas=0", `{"user": "me", "password": "change-me"}`},
	} {
		path, _, _ := strings.Cut(x.url, "?")
		a := newAgent(t, map[string]any{"PUT " + path: variable(15, nil)})
		run(t, a, x.input, append([]string{"var", "put"}, strings.Fields(x.args)...)...).want(t, 0, "Created variable")
		if len(a.asked) != 1 || a.asked[0] != "PUT "+x.url {
			t.Errorf("%s: asked %v", x.args, a.asked)
		}
		var body, want struct{ Items map[string]string }
		if json.Unmarshal([]byte(a.bodies["PUT "+path]), &body) != nil || json.Unmarshal([]byte(`{"Items":`+x.items+`}`), &want) != nil || text(t, body) != text(t, want) {
			t.Errorf("%s: body %s", x.args, a.bodies["PUT "+path])
		}
	}
	for args, want := range map[string]string{
		"a=b": "comes first", "app/x": "at least one item", "app/x a=b SECRET": "item 2 is not key=value", "app/x - a=-": "used twice",
		"-force -check-index 1 app/x a=b": "cannot be combined", "-check-index x app/x a=b": "not an index", "-in x app/x a=b": "expected hcl or json",
		"app/x a=@/none": "no such file",
	} {
		o := run(t, nil, `{"Items":{}}`, append([]string{"var", "put"}, strings.Fields(args)...)...)
		o.want(t, 1, want)
		if strings.Contains(o.err, "SECRET") {
			t.Errorf("%s: a value is in the error: %s", args, o.err)
		}
	}
}

func TestVariableConflictsShowNoValues(t *testing.T) {
	large := variable(140, map[string]string{"k": strings.Repeat("\x01SECRET", 9000), "gone": "SECRET", "same": "1"})
	a := newAgent(t, map[string]any{
		"PUT /v1/var/app/x": &refusal{409, text(t, large)}, "DELETE /v1/var/app/x": &refusal{409, text(t, large)},
		"PUT /v1/var/app/lock": &refusal{409, text(t, variable(0, nil))}, "PUT /v1/var/app/bad": &refusal{409, `{"Items": {"a": "SECRET`},
		"PUT /v1/var/app/text": &refusal{409, "cas error: busy"}, "PUT /v1/var/app/denied": &refusal{403, "Permission denied"},
	})
	for _, x := range []struct {
		args string
		want []string
	}{
		{"put app/x k=SECRET new=SECRET same=1", []string{"index of this command is 0, the variable has the index 140", "~ k has another value", "+ new would be added", "- gone would be removed", "add -force or -check-index=140"}},
		{"purge -check-index 1 app/x", []string{"the variable has the index 140", "add -check-index=140"}},
		{"purge app/x", []string{"Error purging variable", "409", "may be locked"}},
		{"put app/lock a=SECRET", []string{"is locked"}},
		{"put app/bad a=SECRET", []string{"Check-and-Set conflict", "another index"}},
		{"put -force app/text a=SECRET", []string{"cas error: busy"}},
		{"put -namespace dev app/denied a=SECRET", []string{"nomad acl explain -namespace dev -variable app/denied write"}},
	} {
		o := run(t, a, "", append([]string{"var"}, strings.Fields(x.args)...)...)
		o.want(t, 1, x.want...)
		if strings.Contains(o.out+o.err, "SECRET") || strings.Contains(o.err, "same") {
			t.Errorf("%s: %s", x.args, o.err)
		}
	}
}

func TestVariableExamplesAreWritten(t *testing.T) {
	for out, want := range map[string]string{"hcl": examples.Variable, "json": examples.VariableJSON} {
		path := filepath.Join(t.TempDir(), "x")
		run(t, nil, "", "var", "init", "-out", out, path).want(t, 0, "written to "+path)
		run(t, nil, "", "var", "init", "-quiet", path).want(t, 1, "already exists")
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s: %q %v", out, got, err)
		}
	}
}

// locker is a server with one lock. Its queries are answered from a list of codes; the last one stays.
type locker struct {
	*httptest.Server
	mu       sync.Mutex
	codes    map[string][]int
	requests []string
}

func newLocker(t *testing.T, codes map[string][]int) *locker {
	t.Helper()
	l := &locker{codes: codes}
	l.Server = httptest.NewServer(l)
	t.Cleanup(l.Close)
	t.Setenv("NOMAD_ADDR", l.URL)
	t.Setenv("SHELL", "")
	return l
}

func (l *locker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var v api.Variable
	_ = json.NewDecoder(r.Body).Decode(&v)
	op := strings.TrimSuffix(r.URL.RawQuery, "=")
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests = append(l.requests, op)
	code := http.StatusOK
	if left := l.codes[op]; len(left) > 0 {
		if code = left[0]; len(left) > 1 {
			l.codes[op] = left[1:]
		}
	}
	v.Lock.ID = "l1"
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}

func (l *locker) count(op string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.requests {
		if r == op {
			n++
		}
	}
	return n
}

func locked(t *testing.T, args ...string) outcome {
	t.Helper()
	return run(t, nil, "input", append([]string{"var", "lock", "-ttl", "1s", "-delay", "300ms", "-backoff", "20ms"}, args...)...)
}

func TestVariableLockRunsItsCommand(t *testing.T) {
	l := newLocker(t, map[string][]int{"lock-acquire": {409, 500, 409, 200}, "lock-renew": {500, 200}})
	o := locked(t, "app/x", "cat; sleep 1.2; exit 7")
	o.want(t, 7)
	if o.out != "input" || l.count("lock-acquire") != 4 || l.count("lock-renew") < 2 || l.count("lock-release") != 1 {
		t.Errorf("output %q %q, requests %v", o.out, o.err, l.requests)
	}
	locked(t, "-shell=false", "app/x", "--", "printf", "%s;", "-ttl", "$x").wantOut(t, "-ttl;$x;")
	locked(t, "-shell=false", "app/x", "/none").want(t, 1, "Error running command")
	locked(t, "app/x", "kill -KILL $$").want(t, 137)
	if n := l.count("lock-release"); n != 4 {
		t.Errorf("%d releases, requests %v", n, l.requests)
	}
}

func TestVariableLockEndsItsCommandWithTheLock(t *testing.T) {
	for _, code := range []int{409, 500} {
		newLocker(t, map[string][]int{"lock-renew": {code}})
		marks := filepath.Join(t.TempDir(), "marks")
		begin := time.Now()
		o := locked(t, "-max-retry", "2", "app/x", "trap 'echo term' TERM; (sleep 1.5; echo late > "+marks+") & while true; do sleep 0.05; done")
		o.want(t, 1, "Error holding the lock", "term")
		if took := time.Since(begin); took > 1500*time.Millisecond {
			t.Errorf("%d: the command ended after %s", code, took)
		}
		time.Sleep(max(0, 2*time.Second-time.Since(begin)))
		if _, err := os.Stat(marks); err == nil {
			t.Errorf("%d: a process of the command survived", code)
		}
	}
}

func TestVariableLockIsRefused(t *testing.T) {
	l := newLocker(t, map[string][]int{"lock-acquire": {409}})
	locked(t, "-early-return", "app/x", "echo ran").want(t, 1, "the variable is locked")
	l.codes["lock-acquire"] = []int{500}
	if o := locked(t, "-max-retry", "2", "app/x", "echo ran"); o.code != 1 || o.out != "" || l.count("lock-acquire") != 4 {
		t.Errorf("%+v, requests %v", o, l.requests)
	}
	locked(t, "-ttl", "x", "app/x", "true").want(t, 1, "not a duration")
	locked(t, "app/x").want(t, 1, "at least 2 arguments")
	if n := l.count("lock-release"); n != 0 {
		t.Errorf("%d releases", n)
	}
}

func TestVariableLockPassesSignalsOn(t *testing.T) {
	l := newLocker(t, nil)
	ready := filepath.Join(t.TempDir(), "ready")
	go func() {
		for range 1000 {
			if _, err := os.Stat(ready); err == nil {
				_ = syscall.Kill(os.Getpid(), syscall.SIGUSR1)
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	locked(t, "app/x", "trap 'echo usr1; exit 3' USR1; touch "+ready+"; for i in $(seq 100); do sleep 0.1; done").want(t, 3, "usr1")
	if l.count("lock-release") != 1 {
		t.Errorf("requests %v", l.requests)
	}
}
