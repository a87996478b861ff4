package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

const goodVolume = `id = "v1"
name = "v1"
type = "csi"
plugin_id = "hp"
capacity_min = "1MiB"
capability {
  access_mode = "single-node-writer"
  attachment_mode = "file-system"
}
`

func TestBadInputThroughTheCommandLine(t *testing.T) {
	t.Parallel()
	a := kit.Start(t)
	a.Plugin("hp")
	a.Register(a.PluginJob("other"))
	a.PluginHealthy("other")
	file := func(name, body string) string {
		t.Helper()
		path := filepath.Join(a.Dir, name)
		if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if out, code := a.Run("volume", "create", file("good.hcl", goodVolume)); code != 0 {
		t.Fatalf("the good volume: exit %d: %s", code, out)
	}
	change := func(old, now string) string {
		if !strings.Contains(goodVolume, old) {
			t.Fatalf("no %q in the volume", old)
		}
		return strings.Replace(strings.ReplaceAll(goodVolume, `"v1"`, `"v2"`), old, now, 1)
	}
	malformed := `job "x" {
  group "g" {
    task = = "y"
  }
}
`
	cases := []struct {
		name, verb, body string
		code             int
		says             []string
	}{
		{"malformed-job", "job run", malformed, 1, []string{`malformed-job\.hcl:3[:,].*\d`}},
		{"malformed-job-validate", "job validate", malformed, 255, []string{`malformed-job-validate\.hcl:3[:,].*\d`}},
		{"malformed-volume", "volume create", "id = \"v2\"\ncapability {\n  access_mode = = 1\n}\n", 1, []string{`malformed-volume\.hcl:3[:,].*\d`}},
		{"unknown-plugin", "volume create", change(`"hp"`, `"nope"`), 1, []string{"nope"}},
		{"unknown-mode", "volume create", change("single-node-writer", "every-node-writer"), 1, []string{"every-node-writer", "single-node-writer"}},
		{"unsupported", "volume create", change("capability {", "capability {\n  access_mode = \"single-node-writer\"\n  attachment_mode = \"block-device\"\n}\ncapability {"), 1, []string{"v2", "hp", "not both"}},
		{"bad-capacity", "volume create", change("1MiB", "one mib"), 1, []string{"one mib", "capacity_min"}},
		{"capacity-upside-down", "volume create", change("\"1MiB\"", "\"2MiB\"\ncapacity_max = \"1MiB\""), 1, []string{"capacity"}},
		{"no-id", "volume create", strings.Replace(goodVolume, "id = \"v1\"\n", "", 1), 1, []string{`no-id\.hcl has no id`, "-id"}},
		{"no-capability", "volume create", strings.Split(strings.ReplaceAll(goodVolume, `"v1"`, `"v2"`), "capability")[0], 1, []string{"capability"}},
		{"other-plugin", "volume create", strings.Replace(goodVolume, `"hp"`, `"other"`, 1), 1, []string{"v1", "hp", "other"}},
		{"register-nothing", "volume register", strings.ReplaceAll(goodVolume, `"v1"`, `"v2"`), 1, []string{"v2", "hp", "does not exist"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			path := file(c.name+".hcl", c.body)
			cmd := exec.Command(a.Binary, append(strings.Fields(c.verb), path)...)
			cmd.Env = append(os.Environ(), "NOMAD_ADDR="+a.API.Address())
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			_ = cmd.Run()
			if code := cmd.ProcessState.ExitCode(); code != c.code {
				t.Errorf("exit %d, want %d", code, c.code)
			}
			for _, want := range c.says {
				if !regexp.MustCompile(want).MatchString(stderr.String()) {
					t.Errorf("stderr does not match %q", want)
				}
			}
			if strings.Contains(stderr.String(), "panic") || strings.Contains(stderr.String(), "rpc error") {
				t.Error("the insides show")
			}
			t.Logf("stdout %q, stderr:\n%s", stdout.String(), stderr.String())
		})
	}
	if v := volume(t, a, "v1"); v.PluginID != "hp" {
		t.Errorf("the good volume moved to %s", v.PluginID)
	}
	if data, _ := filepath.Glob(a.Dir + "/*/data/*"); len(data) != 1 {
		t.Errorf("the providers have %q", data)
	}
}
