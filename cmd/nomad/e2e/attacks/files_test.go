package attacks

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// signed finds JWTs.
var signed = regexp.MustCompile(`eyJ[A-Za-z0-9_-]{12,}\.[A-Za-z0-9_-]{12,}\.[A-Za-z0-9_-]{12,}`)

// canaries are secrets by what they are.
type canaries map[string]string

func (c canaries) add(what string) string {
	c[what] = "canary-" + strings.ToLower(rand.Text())
	return c[what]
}

// in lists those that a text contains, plain or in base64.
func (c canaries) in(text []byte) (found []string) {
	for what, s := range c {
		if bytes.Contains(text, []byte(s)) || bytes.Contains(text, []byte(base64.StdEncoding.EncodeToString([]byte(s)))) {
			found = append(found, what)
		}
	}
	if signed.Match(text) {
		found = append(found, "a signed token")
	}
	slices.Sort(found)
	return found
}

const canaryJob = `job "canary" {
  group "g" {
    task "main" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "case $PASSWORD in canary-*) exec sleep 1000;; esac; exit 1"]
      }
      identity {
        env  = true
        file = true
      }
      secret "db" {
        provider = "nomad"
        path     = "nomad/jobs/canary"
      }
      env {
        PASSWORD = "${secret.db.password}"
      }
      resources {
        cpu    = 1
        memory = 10
      }
    }
  }
}`

const volume = `id = %[1]q
name = %[1]q
type = "csi"
plugin_id = "hp"
capability {
  access_mode = "single-node-writer"
  attachment_mode = "file-system"
}
%[2]s
`

// TestSecretsAreInNoFile uses secrets of all kinds with one agent and then reads all files of the agent, its logs at the level
// TRACE, the audit log, a snapshot, and what the API and the command line show.
func TestSecretsAreInNoFile(t *testing.T) {
	t.Parallel()
	a := kit.PrepareGuarded(t)
	config := filepath.Join(a.Dir, "agent.hcl")
	body, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	body = append(bytes.Replace(body, []byte(`"DEBUG"`), []byte(`"TRACE"`), 1), "\naudit {\n  enabled = true\n}\n"...)
	if err := os.WriteFile(config, body, 0o600); err != nil {
		t.Fatal(err)
	}
	a.Launch()
	a.Ready(1)
	c, stored := canaries{}, canaries{} // stored are those that the raft log has in clear, see docs/threat-model.md

	token := a.ClientToken("canary", `namespace "default" { policy = "write" variables { path "*" { capabilities = ["write", "read", "list", "destroy"] } } }`)
	c["a token"], c["the token of the bootstrap"] = token.SecretID, kit.ManagementToken
	once, _, err := a.As(token.SecretID).ACLTokens().UpsertOneTimeToken(nil)
	if err != nil {
		t.Fatal(err)
	}
	c["a one-time token"] = once.OneTimeSecretID
	user := a.As(token.SecretID)
	for _, path := range []string{"app/db", "nomad/jobs/canary", "app/locked"} {
		if _, _, err := user.Variables().Create(&api.Variable{Path: path, Items: map[string]string{"password": c.add("the variable " + path), c.add("a key of " + path): "x"}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	locked, _, err := user.Variables().AcquireLock(&api.Variable{Path: "app/locked", Lock: &api.VariableLock{TTL: "1h", LockDelay: "15s"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c["the lock"] = locked.LockID()
	a.Plugin("hp")
	for id, secret := range map[string]string{
		"v1": fmt.Sprintf("secrets {\n password = %q\n}", c.add("a created volume")),
		"v2": `secrets_from = "app/db"`,
	} {
		if out, code := run(t, a, id, fmt.Sprintf(volume, id, secret), "volume", "create"); code != 0 {
			t.Fatal(out)
		}
	}
	refused, code := run(t, a, "v3", fmt.Sprintf(volume, "v3", fmt.Sprintf("mount_options {\n mount_flags = [%q]\n}", "password="+stored.add("a mount flag"))), "volume", "create")
	if code == 0 {
		t.Errorf("the driver accepts a mount flag that it does not know: %s", refused)
	}
	if found := append(c.in([]byte(refused)), stored.in([]byte(refused))...); len(found) > 0 {
		t.Errorf("the error of the driver contains %v: %s", found, refused)
	}
	if out, code := run(t, a, "job", canaryJob, "job", "run", "-detach"); code != 0 {
		t.Fatal(out)
	}
	a.Running("canary", 1)
	used := append(slices.Collect(maps.Values(stored)), c["a token"], c["the lock"])
	for name, secret := range issued(t, a) {
		c[name], used = secret, append(used, secret)
	}
	for _, s := range used {
		send(t, a, s, http.MethodGet, "/v1/job/"+s, "")
		send(t, a, s, http.MethodGet, "/v1/var/"+s+"?token="+s, "")
		send(t, a, s, http.MethodPut, "/v1/jobs", `{"Job":`+s)
		a.Run("var", "get", "-token", s, "app/none")
	}
	if out, code := a.Run("node", "intro", "create", "-node-name", "n2"); code != 0 || !signed.MatchString(out) {
		t.Errorf("node intro create: %d %s", code, out)
	} else {
		c["an introduction"] = signed.FindString(out)
	}
	if out, code := a.Run("volume", "snapshot", "create", "-secret", "password="+c.add("a snapshot"), "v1", "s1"); code != 0 {
		t.Error(out)
	}

	shown := func(what string, text []byte, sets ...canaries) {
		t.Helper()
		for _, set := range sets {
			if found := set.in(text); len(found) > 0 {
				t.Errorf("%s contains %s", what, strings.Join(found, ", "))
			}
		}
	}
	for _, path := range []string{
		"/v1/jobs", "/v1/job/canary", "/v1/job/canary/versions", "/v1/job/canary/submission?version=0", "/v1/allocations?task_states=true", "/v1/nodes", "/v1/volumes", "/v1/volume/csi/v1",
		"/v1/vars", "/v1/client/identity", "/v1/agent/self", "/v1/metrics", "/v1/acl/tokens", "/v1/operator/keyring/keys", "/v1/evaluations", "/v1/volumes/snapshot?plugin_id=hp",
	} {
		out, code := send(t, a, kit.ManagementToken, http.MethodGet, path, "")
		if code != http.StatusOK {
			t.Errorf("%s: %d %s", path, code, out)
		}
		shown(path, out, c, stored)
	}
	for _, args := range [][]string{{"job", "inspect", "canary"}, {"job", "status", "-verbose", "canary"}, {"volume", "status", "-verbose", "v1"}, {"var", "list"}, {"node", "status", "-verbose", "-self"}} {
		out, code := a.Run(args...)
		if code != 0 {
			t.Errorf("%v: %s", args, out)
		}
		shown(strings.Join(args, " "), []byte(out), c, stored)
	}
	saved := filepath.Join(a.Dir, "saved.snap")
	if out, code := a.Run("operator", "snapshot", "save", saved); code != 0 {
		t.Fatal(out)
	}
	whole := unpacked(t, saved)
	shown("the snapshot", whole, c)
	if !bytes.Contains(whole, []byte(token.AccessorID)) || !bytes.Contains(whole, []byte("app/db")) {
		t.Error("the snapshot is not read as it should be")
	}
	files(t, a, c, stored)
}

// run runs a command on a file, which is outside the directories that are searched.
func run(t *testing.T, a *kit.Agent, name, text string, args ...string) (string, int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), name+".hcl")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return a.Run(append(args, file)...)
}

// issued are the signed identities in the files of tasks, by path.
func issued(t *testing.T, a *kit.Agent) map[string]string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(a.Dir, "data", "alloc", "*", "*", "secrets", "nomad_token"))
	if err != nil || len(found) == 0 {
		t.Errorf("no task has an identity: %v", err)
	}
	all := map[string]string{}
	for _, f := range found {
		body, err := os.ReadFile(f)
		if err != nil || !signed.Match(body) {
			t.Errorf("%s: %v %q", f, err, body)
		}
		all[f] = string(body)
	}
	return all
}

// files searches all files of an agent that outlive its processes. What docs/threat-model.md names may be in the log and the
// snapshots of raft, and a node's own identity in its file, which only the owner may read.
func files(t *testing.T, a *kit.Agent, c, stored canaries) {
	t.Helper()
	memory := map[string]bool{}
	for _, m := range a.Mounts() {
		memory[m] = true
	}
	read := 0
	if err := filepath.WalkDir(a.Dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && memory[name]:
			return fs.SkipDir
		case !d.Type().IsRegular() || name == filepath.Join(a.Dir, "saved.snap"):
			return nil
		}
		body, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		read++
		found := c.in(body)
		if !strings.Contains(name, "/server/raft/") {
			found = append(found, stored.in(body)...)
		}
		info, err := d.Info()
		if own := err == nil && info.Mode().Perm() == 0o600 && filepath.Base(name) == "identity.jwt"; own {
			found = slices.DeleteFunc(found, func(s string) bool { return s == "a signed token" })
		}
		if len(found) > 0 {
			t.Errorf("%s contains %s", name, strings.Join(slices.Compact(found), ", "))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if read < 10 {
		t.Errorf("only %d files were read", read)
	}
	for _, must := range []string{"agent.log", "data/audit/audit.json"} {
		if body, err := os.ReadFile(filepath.Join(a.Dir, must)); err != nil || !bytes.Contains(body, []byte("/v1/jobs")) {
			t.Errorf("%s does not show requests: %v", must, err)
		}
	}
}
