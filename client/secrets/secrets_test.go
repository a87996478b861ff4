package secrets_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/secrets"
)

// cluster has one variable, which only the right token reads.
type cluster struct{ err error }

func (c cluster) Invoke(_ context.Context, method string, req, resp any) error {
	r := req.(*api.VariableRequest)
	if method != "Variables.Read" || r.Region != "global" {
		return fmt.Errorf("%s in %s", method, r.Region)
	}
	if c.err != nil {
		return c.err
	}
	if r.AuthToken != "jwt" {
		return fault.New(fault.Denied, "Permission denied")
	}
	if r.Namespace == "ns" && r.Path == "db/main" {
		*resp.(*api.VariableResponse) = api.VariableResponse{Meta: &api.VariableMeta{Path: r.Path}, Items: map[string]string{"password": "hunter22"}}
	}
	return nil
}

// fetch fetches with a provider "p" that is this shell script.
func fetch(t *testing.T, script string, blocks ...*api.Secret) (map[string]string, error) {
	t.Helper()
	f := &secrets.Fetcher{Servers: cluster{}, Region: "global", Dir: provider(t, "p", script)}
	return f.Fetch(t.Context(), task, blocks)
}

var task = secrets.Task{Namespace: "ns", Token: "jwt", Replace: strings.NewReplacer("${x}", "main").Replace}

func provider(t *testing.T, name, script string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o755); err != nil { //nolint:gosec // it is executed
		t.Fatal(err)
	}
	return dir
}

func TestVariablesAndExecutables(t *testing.T) {
	got, err := fetch(t, `printf '{"result":{"op":"%s","args":"%s","a":"%s","home":"%s","in":"%s"},"error":null}' "$CPI_OPERATION" "$*" "$A" "$HOME" "$(cat)"`,
		&api.Secret{Name: "v", Provider: "nomad", Path: "db/${x}"},
		&api.Secret{Name: "other", Provider: "nomad", Path: "db/main", Config: map[string]any{"namespace": "ns"}},
		&api.Secret{Name: "e", Provider: "p", Path: "a b; $(id)", Env: map[string]string{"A": "1 ${x}"}})
	want := map[string]string{
		"v.password": "hunter22", "other.password": "hunter22",
		"e.op": "fetch", "e.args": "fetch a b; $(id)", "e.a": "1 main", "e.home": "", "e.in": "",
	}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v %v", got, err)
	}
}

// A job chooses the environment of an executable that runs with the rights of the agent.
func TestEnvironmentRunsNoCodeOfTheJob(t *testing.T) {
	dir, script := t.TempDir(), `printf '{"result":{"v":"%s"}}' "$(helper)"`
	if err := os.WriteFile(filepath.Join(dir, "helper"), []byte("#!/bin/sh\necho of the job"), 0o755); err != nil { //nolint:gosec // it is executed
		t.Fatal(err)
	}
	for _, name := range []string{"PATH", "LD_PRELOAD", "BASH_ENV", "BASH_FUNC_id%%", "PYTHONPATH", "CPI_OPERATION", "${y}"} {
		got, err := fetch(t, script, &api.Secret{Name: "e", Provider: "p", Path: "a", Env: map[string]string{name: dir}})
		if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "env") {
			t.Errorf("%s: %v %v", name, got, err)
		}
	}
}

func TestVariablesThatCannotBeRead(t *testing.T) {
	for _, c := range []struct {
		what    string
		block   api.Secret
		token   string
		servers error
		class   fault.Class
		text    string
	}{
		{"missing", api.Secret{Path: "none"}, "jwt", nil, fault.NotFound, `secret "s" from provider "nomad" at path "none": there is no such variable in namespace "ns"`},
		{"denied", api.Secret{Path: "db/main"}, "other", nil, fault.Denied, "the identity of the task may not read the variable"},
		{"servers", api.Secret{Path: "db/main"}, "jwt", fault.New(fault.NotLeader, "no leader"), fault.NotLeader, "no leader"},
		{"config", api.Secret{Path: "db/main", Config: map[string]any{"engine": "x"}}, "jwt", nil, fault.Invalid, `config "engine"`},
		{"vault", api.Secret{Path: "db/main", Provider: "vault"}, "jwt", nil, fault.Unimplemented, "the provider vault is not supported"},
	} {
		c.block.Name = "s"
		if c.block.Provider == "" {
			c.block.Provider = "nomad"
		}
		f := &secrets.Fetcher{Servers: cluster{c.servers}, Region: "global"}
		of := task
		of.Token = c.token
		if _, err := f.Fetch(t.Context(), of, []*api.Secret{&c.block}); fault.Of(err) != c.class || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v (%v)", c.what, err, fault.Of(err))
		}
	}
}

// TestHostileOutput: nothing that a provider prints is quoted in an error, except its own error, as one short line.
func TestHostileOutput(t *testing.T) {
	for what, c := range map[string]struct{ script, want string }{
		"nothing":         {"", "did not print a JSON object"},
		"no JSON":         {"echo hunter22", "did not print a JSON object"},
		"two objects":     {`echo '{"result":{"a":"hunter22"}}{"result":{}}'`, "did not print a JSON object"},
		"text behind":     {`echo '{"result":{"a":"hunter22"}} hunter22'`, "did not print a JSON object"},
		"a list":          {`echo '["hunter22"]'`, "did not print a JSON object"},
		"null":            {`echo null`, "did not print a JSON object"},
		"numbers":         {`echo '{"result":{"a":12345678}}'`, "did not print a JSON object"},
		"deep":            {`head -c 200000 /dev/zero | tr '\0' '['`, "did not print a JSON object"},
		"no result":       {`echo '{"error":null}'`, "printed no result"},
		"NUL":             {`printf %s '{"result":{"a":"hunter22\u0000"}}'`, `value of key "a" contains a NUL byte`},
		"exit":            {`echo '{"result":{"a":"hunter22"}}'; echo hunter22 >&2; exit 3`, "the provider failed: exit status 3"},
		"error":           {`printf %s '{"result":{"a":"hunter22"},"error":"key hunter22\n\u001b[31m not found"}'`, "the provider reports: key (a)"},
		"error and exit":  {`echo '{"error":"no such path"}'; exit 1`, "the provider reports: no such path"},
		"a long error":    {`printf '{"error":"'; head -c 5000 /dev/zero | tr '\0' x; printf '"}'`, "xxx..."},
		"much":            {`yes hunter22`, "printed more than 262144 bytes"},
		"much, then none": {`head -c 300000 /dev/zero; sleep 100`, "printed more than 262144 bytes"},
	} {
		t.Run(what, func(t *testing.T) {
			began := time.Now()
			got, err := fetch(t, c.script, &api.Secret{Name: "s", Provider: "p", Path: "x"})
			if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 500 {
				t.Fatalf("%v %v, want %s", got, err, c.want)
			}
			if text := err.Error(); strings.Contains(text, "hunter22") || strings.Contains(text, "1234") || strings.ContainsAny(text, "\n\x1b") {
				t.Errorf("it is quoted: %q", text)
			}
			if d := time.Since(began); d > 8*time.Second {
				t.Errorf("took %v", d)
			}
		})
	}
}

func TestProvidersThatAreNotUsed(t *testing.T) {
	dir := provider(t, "p", "echo '{}'")
	for _, err := range []error{
		os.WriteFile(filepath.Join(dir, "text"), nil, 0o600), os.Mkdir(filepath.Join(dir, "dir"), 0o755),
		os.WriteFile(filepath.Join(dir, "open"), nil, 0o600), os.Chmod(filepath.Join(dir, "open"), 0o777),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	f := &secrets.Fetcher{Servers: cluster{}, Dir: dir}
	for name, want := range map[string]string{
		"none": "install " + dir + "/none", "text": "not an executable file", "dir": "not an executable file", "open": "writable by others",
		"../p": "is not valid", "": "is not valid", "a/b": "is not valid", ".": "is not valid", "-x": "is not valid",
	} {
		if _, err := f.Fetch(t.Context(), task, []*api.Secret{{Name: "s", Provider: name, Path: "x"}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", name, err, want)
		}
	}
}

// TestProcessesOfProvidersEnd: those that a provider leaves, also in other sessions, have ended when the call returns.
func TestProcessesOfProvidersEnd(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root for a pid namespace")
	}
	for what, end := range map[string]string{
		"it ends": `echo '{"result":{}}'`, "it is killed": "sleep 100",
	} {
		t.Run(what, func(t *testing.T) {
			// A pid of the namespace says nothing here: a pipe has no writer any more when the last process has ended.
			fifo := filepath.Join(t.TempDir(), "alive")
			if err := syscall.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := os.OpenFile(fifo, os.O_RDONLY|syscall.O_NONBLOCK, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			f := &secrets.Fetcher{Servers: cluster{}, Dir: provider(t, "p", "setsid sh -c 'echo x; exec sleep 1000' >"+strconv.Quote(fifo)+" & sleep 0.2\n"+end)}
			_, err = f.Fetch(ctx, task, []*api.Secret{{Name: "s", Provider: "p", Path: "x"}})
			if (err != nil) != (ctx.Err() != nil) {
				t.Errorf("%v", err)
			}
			if err := r.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
				t.Fatal(err)
			}
			b := make([]byte, 10)
			if n, err := r.Read(b); err != nil || n != 2 {
				t.Fatalf("the process has not begun: %d %v", n, err)
			}
			if n, err := r.Read(b); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("a process is left: %d %v", n, err)
			}
		})
	}
}

func TestFingerprint(t *testing.T) {
	dir := provider(t, "good", `[ "$1 $CPI_OPERATION" = "fingerprint fingerprint" ] && echo '{"type":"secrets","version":"1.2.3"}'`)
	for name, script := range map[string]string{
		"kind": `echo '{"type":"device","version":"1.2.3"}'`, "version": `echo '{"type":"secrets","version":"new"}'`, "exit": "exit 1", "nomad": `echo '{"type":"secrets","version":"6.6.6"}'`,
		"a.b": `echo '{"type":"secrets","version":"1.2.3"}'`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o755); err != nil { //nolint:gosec // it is executed
			t.Fatal(err)
		}
	}
	failed := map[string]bool{}
	got := secrets.Fingerprint(t.Context(), dir, func(provider string, _ error) { failed[provider] = true })
	if want := map[string]string{"plugins.secrets.nomad.version": "1.0.0", "plugins.secrets.good.version": "1.2.3"}; !maps.Equal(got, want) {
		t.Errorf("attributes %v", got)
	}
	if len(failed) != 5 {
		t.Errorf("failed %v", failed)
	}
	got = secrets.Fingerprint(t.Context(), filepath.Join(dir, "none"), func(_ string, err error) { t.Error(err) })
	if len(got) != 1 {
		t.Errorf("without executables: %v", got)
	}
}

func TestHide(t *testing.T) {
	values := map[string]string{"a.k": "hunter22", "b.k": "hunter22-long", "c.k": "no", "d.k": ""}
	if got := secrets.Hide("no hunter22-long, hunter22", values); got != "no (b.k), (a.k)" {
		t.Error(got)
	}
	pem := map[string]string{"d.pem": "-----BEGIN KEY-----\nab\"cd+/efgh\n"}
	for _, form := range []string{"%q", "%s", "%x"} {
		text := fmt.Sprintf("config: user "+form+" is unknown", pem["d.pem"])
		if got := secrets.Hide(text, pem); strings.Contains(got, "efgh") || strings.Contains(got, "65666768") || !strings.HasPrefix(got, "config: user ") {
			t.Error(got)
		}
	}
}
