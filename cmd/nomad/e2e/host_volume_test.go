package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

const stickyVolume = `type = "host"
name = "database"
plugin_id = "quota"
capacity_max = "20MB"
capability {
  access_mode     = "single-node-single-writer"
  attachment_mode = "file-system"
}
`

// TestDatabaseOnAStickyHostVolume: the job waits for the volume, cannot write more than its size, and finds its data after
// restarts of the agent and in its next allocation. The volume is not deleted while it is in use.
func TestDatabaseOnAStickyHostVolume(t *testing.T) {
	t.Parallel()
	for method, prepare := range map[string]func(*testing.T) *kit.Agent{
		"loop": func(t *testing.T) *kit.Agent { return kit.Prepare(t) }, "btrfs": onBtrfs,
	} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			databaseOnAStickyHostVolume(t, prepare(t), method)
		})
	}
}

func databaseOnAStickyHostVolume(t *testing.T, a *kit.Agent, method string) {
	a.Launch()
	run := func(want int, args ...string) string {
		t.Helper()
		out, code := a.Run(args...)
		if code != want {
			t.Fatalf("%v: exit %d: %s", args, code, out)
		}
		return out
	}
	j := kit.ShellJob("db", `cd $NOMAD_TASK_DIR/../data; echo start >> log; dd if=/dev/zero of=fill bs=1000000 count=21 2>/dev/null; n=$(stat -c %s fill); rm fill; until echo $n > size; do sleep 1; done; exec sleep 600`)
	g := j.TaskGroups[0]
	g.Volumes = map[string]*api.VolumeRequest{"data": {Name: "data", Type: "host", Source: "database", AccessMode: "single-node-single-writer", Sticky: true}}
	g.Tasks[0].VolumeMounts = []*api.VolumeMount{{Volume: new("data"), Destination: new("data")}}
	a.Register(j)
	a.Until(30*time.Second, "the job to wait for the volume", func() error {
		evals, _, err := a.API.Jobs().Evaluations("db", nil)
		for _, e := range evals {
			if e.Status == "blocked" {
				return nil
			}
		}
		return errors.Join(err, errors.New("no evaluation is blocked"))
	})
	spec := filepath.Join(a.Dir, "volume.hcl")
	if err := os.WriteFile(spec, []byte(stickyVolume+`parameters { method = "`+method+`" }`), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := run(0, "volume", "create", spec); !strings.Contains(out, "Created host volume database") {
		t.Error(out)
	}
	stubs, _, err := a.API.HostVolumes().List(&api.HostVolumeListRequest{}, nil)
	if err != nil || len(stubs) != 1 {
		t.Fatalf("%v %v", stubs, err)
	}
	v, _, err := a.API.HostVolumes().Get(stubs[0].ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	starts := func(n int) {
		t.Helper()
		a.Until(60*time.Second, fmt.Sprintf("start %d of the job", n), func() error {
			b, err := os.ReadFile(filepath.Join(v.HostPath, "log"))
			if got := strings.Count(string(b), "start"); err != nil || got != n {
				return errors.Join(err, fmt.Errorf("%d starts", got))
			}
			if len(a.Allocs("db", "running")) == 0 {
				return errors.New("no allocation runs")
			}
			return nil
		})
	}
	starts(1)
	a.Until(30*time.Second, "the size", func() error {
		b, err := os.ReadFile(filepath.Join(v.HostPath, "size"))
		if err == nil && len(b) == 0 {
			return errors.New("it is not written yet")
		}
		if err == nil && (len(b) != 9 || !strings.HasPrefix(string(b), "20")) {
			t.Errorf("%s bytes fit", b)
		}
		return err
	})
	if out := run(1, "volume", "delete", "-type", "host", "database"); !strings.Contains(out, "is used by allocation") {
		t.Error(out)
	}
	a.Kill()
	a.Launch()
	a.Ready(1)
	a.Until(30*time.Second, "the volume to be ready again", func() error {
		v, _, err := a.API.HostVolumes().Get(v.ID, nil)
		if err == nil && v.State != "ready" {
			err = fmt.Errorf("it is %s", v.State)
		}
		return err
	})
	run(0, "alloc", "stop", "-detach", a.Allocs("db", "running")[0].ID)
	starts(2)
	claims, _, err := a.API.TaskGroupHostVolumeClaims().List(&api.TaskGroupHostVolumeClaimsListRequest{}, nil)
	if err != nil || len(claims) != 1 || claims[0].VolumeID != v.ID || claims[0].AllocID != a.Allocs("db", "running")[0].ID {
		t.Errorf("claims %v %v", claims, err)
	}
	a.Stop("db", true)
	a.Until(30*time.Second, "the volume to be deleted", func() error {
		if out, code := a.Run("volume", "delete", "-type", "host", v.ID); code != 0 {
			return errors.New(out)
		}
		return nil
	})
	if _, err := os.Stat(v.HostPath); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is left: %v", err)
	}
}
