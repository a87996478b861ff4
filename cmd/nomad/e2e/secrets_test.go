package e2e

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// secretJob writes what it gets to its secrets directory.
func secretJob(id string) *api.Job {
	j := kit.ShellJob(id, `printf '%s|%s|%s|%s' "$V" "$E" "${secret.e.token}" "$NOMAD_TOKEN" > $NOMAD_SECRETS_DIR/out; exec sleep 1000`)
	task := j.TaskGroups[0].Tasks[0]
	task.Secrets = []*api.Secret{
		{Name: "v", Provider: "nomad", Path: "nomad/jobs/${NOMAD_JOB_ID}"},
		{Name: "e", Provider: "store", Path: "some/path", Env: map[string]string{"SUFFIX": "-of-${NOMAD_JOB_ID}"}},
	}
	task.Identity = &api.WorkloadIdentity{Name: "default", Env: true}
	task.Env = map[string]string{"V": "${secret.v.password}", "E": "${secret.e.token}"}
	secrets := 2
	task.Resources.SecretsMB = &secrets
	return j
}

// install makes the executable provider, whose values are not in clear in it.
func install(t *testing.T, a *kit.Agent, value string) {
	t.Helper()
	dir := filepath.Join(a.Dir, "data", "common_plugins", "secrets")
	script := fmt.Sprintf(`#!/bin/sh
case $1 in
fingerprint) echo '{"type":"secrets","version":"0.1.0"}' ;;
fetch) printf '{"result":{"token":"%%s%%s"},"error":null}' "$(echo %s | base64 -d)" "$SUFFIX" ;;
esac
`, base64.StdEncoding.EncodeToString([]byte(value)))
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "store"), []byte(script), 0o755)); err != nil { //nolint:gosec // it is executed
		t.Fatal(err)
	}
}

func putVariable(t *testing.T, a *kit.Agent, path, value string) {
	t.Helper()
	v := api.NewVariable(path)
	v.Items["password"] = value
	if _, _, err := a.API.Variables().Update(v, nil); err != nil {
		t.Fatal(err)
	}
}

func TestTaskSecrets(t *testing.T) {
	t.Parallel()
	for what, prepare := range map[string]func(testing.TB) *kit.Agent{"open": kit.Prepare, "access control": kit.PrepareGuarded} {
		t.Run(what, func(t *testing.T) { taskSecrets(t, prepare(t)) })
	}
}

func taskSecrets(t *testing.T, a *kit.Agent) {
	config := filepath.Join(a.Dir, "agent.hcl")
	text, err := os.ReadFile(config)
	if err == nil {
		err = os.WriteFile(config, bytes.Replace(text, []byte(`"DEBUG"`), []byte(`"TRACE"`), 1), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	install(t, a, "canary-of-the-store-1")
	a.Launch()

	a.Register(secretJob("j"))
	failed := a.Until(20*time.Second, "an event of the missing variable", func() error {
		for _, stub := range a.Allocs("j", "failed") {
			for _, e := range stub.TaskStates["main"].Events {
				if e.Type == "Setup Failure" && strings.Contains(e.DisplayMessage, `secret "v" from provider "nomad" at path "nomad/jobs/${NOMAD_JOB_ID}": there is no such variable in namespace "default"`) {
					return nil
				}
			}
		}
		return errors.New("there is none")
	})
	t.Logf("missing variable: %v", failed)
	a.Stop("j", true)

	putVariable(t, a, "nomad/jobs/j", "canary-of-the-variable-1")
	a.Register(secretJob("j"))
	alloc := a.Running("j", 1)
	out := filepath.Join(a.Dir, "data", "alloc", alloc.ID, "main", "secrets", "out")
	got := secretsOf(t, a, out, "canary-of-the-variable-1|canary-of-the-store-1-of-j|canary")
	if strings.Count(got, "canary-of-the-store-1-of-j") != 2 {
		t.Errorf("the config has no secret: %s", got)
	}
	var st syscall.Statfs_t
	if err := syscall.Statfs(out, &st); err != nil || st.Blocks*uint64(st.Bsize) != 2<<20 {
		t.Errorf("secrets/ has %d blocks of %d bytes: %v", st.Blocks, st.Bsize, err)
	}
	if shown, code := a.Run("alloc", "fs", alloc.ID, "main/secrets/out"); code == 0 || strings.Contains(shown, "canary") {
		t.Errorf("users read the secrets: %s", shown)
	}
	if !strings.HasPrefix(token(got), "eyJ") {
		t.Errorf("the task has the token %q", token(got))
	}
	hidden(t, a, alloc.ID, token(got))

	a.Kill()
	a.Launch()
	if now := a.Running("j", 1); now.ID != alloc.ID || now.TaskStates["main"].Restarts != 0 {
		t.Errorf("after a restart of the agent %s runs, %d restarts", now.ID, now.TaskStates["main"].Restarts)
	}
	if _, err := os.Stat(out); err != nil {
		t.Errorf("after a restart of the agent: %v", err)
	}
	hidden(t, a, alloc.ID, token(got))

	install(t, a, "canary-of-the-store-2")
	putVariable(t, a, "nomad/jobs/j", "canary-of-the-variable-2")
	if text, code := a.Run("alloc", "restart", alloc.ID); code != 0 {
		t.Fatal(text)
	}
	got = secretsOf(t, a, out, "canary-of-the-variable-2|canary-of-the-store-2-of-j|canary")
	hidden(t, a, alloc.ID, token(got))

	a.Stop("j", false)
	a.Until(20*time.Second, "the secrets to be unmounted", func() error {
		return none(a.Mounts(), "/secrets")
	})
	if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the secrets of an ended task: %v", err)
	}
	hidden(t, a, alloc.ID, token(got))
}

// token is the signed identity that the task has written.
func token(got string) string { return got[strings.LastIndexByte(got, '|')+1:] }

// secretsOf waits until the task has written text that begins so.
func secretsOf(t *testing.T, a *kit.Agent, file, want string) (got string) {
	t.Helper()
	a.Until(20*time.Second, want, func() error {
		b, err := os.ReadFile(file)
		if got = string(b); err == nil && !strings.HasPrefix(got, want) {
			err = errors.New("the task has other secrets")
		}
		return err
	})
	return got
}

// hidden fails if a secret is in a file of the agent that is not in memory, or in what it shows.
func hidden(t *testing.T, a *kit.Agent, alloc, token string) {
	t.Helper()
	look := func(where string, text []byte) {
		for _, canary := range []string{"canary-of-the-variable", "canary-of-the-store", token} {
			if i := bytes.Index(text, []byte(canary)); i >= 0 {
				t.Errorf("%s contains %s behind %q", where, canary, text[max(0, i-100):i])
			}
		}
	}
	var home syscall.Stat_t
	if err := syscall.Stat(a.Dir, &home); err != nil {
		t.Fatal(err)
	}
	files := 0
	err := filepath.WalkDir(a.Dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // it was removed meanwhile
		}
		var st syscall.Stat_t
		if syscall.Lstat(path, &st) == nil && st.Dev != home.Dev {
			return fs.SkipDir
		}
		if !e.Type().IsRegular() {
			return nil
		}
		files++
		b, err := os.ReadFile(path)
		if err == nil {
			look(path, b)
		}
		return nil
	})
	if err != nil || files < 10 {
		t.Errorf("looked into %d files: %v", files, err)
	}
	for _, args := range [][]string{{"alloc", "status", "-json", alloc}, {"alloc", "status", "-verbose", alloc}, {"job", "inspect", "j"}, {"alloc", "logs", alloc}} {
		out, _ := a.Run(args...)
		look(strings.Join(args, " "), []byte(out))
	}
}
