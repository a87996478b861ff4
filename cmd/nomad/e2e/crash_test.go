package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

func TestAgentKilledWhileManyStart(t *testing.T) {
	t.Parallel()
	a := kit.Start(t)
	a.Plugin("hp")
	const many = 20
	name := func(i int) (job, data string) { return fmt.Sprintf("w-%d", i), fmt.Sprintf("v-%d", i) }
	for i := range many {
		_, data := name(i)
		a.CreateVolume("hp", data)
	}
	for i := range many {
		job, data := name(i)
		a.Register(kit.WithVolume(kit.ShellJob(job, "echo start $NOMAD_ALLOC_ID >> data/starts; exec sleep 1000"), data))
	}
	a.Until(20*time.Second, "some mounts", func() error {
		if n := len(a.Mounts()); n < 5 {
			return fmt.Errorf("%d mounts", n)
		}
		return nil
	})
	started := 0
	for i := range many {
		job, _ := name(i)
		started += len(a.Allocs(job, "running"))
	}
	t.Logf("killed while %d of %d run", started, many)
	a.Kill()
	a.Launch()
	for i := range many {
		if job, _ := name(i); i%2 == 1 {
			a.Stop(job, i%4 == 1)
		}
	}
	a.PluginHealthy("hp")
	for i := range many {
		job, data := name(i)
		if i%2 == 1 {
			a.Free(data)
			continue
		}
		alloc := a.Running(job, 1)
		if got := holders(volume(t, a, data)); len(got) != 1 || got[0] != alloc.ID {
			t.Errorf("%s runs as %s and is held by %q", job, alloc.ID, got)
		}
	}
	a.Until(20*time.Second, "only the mounts of running jobs", func() error {
		if n := targets(a); n != many/2 {
			return fmt.Errorf("%d volumes are mounted: %q", n, a.Mounts())
		}
		return nil
	})

	a.Kill()
	a.Launch()
	for i := 0; i < many; i += 2 {
		job, data := name(i)
		a.Stop(job, false)
		a.Free(data)
	}
	unmounted(t, a)
	if n := len(drivers(a)); n != 1 {
		t.Errorf("%d processes of the driver", n)
	}
}

// targets is how many volumes are mounted for an allocation, apart from where they are staged.
func targets(a *kit.Agent) int {
	n := 0
	for _, m := range a.Mounts() {
		if strings.Contains(m, "/csi/") && filepath.Base(filepath.Dir(m)) == "t" {
			n++
		}
	}
	return n
}

func TestAgentKilledWhileManyStop(t *testing.T) {
	t.Parallel()
	a := kit.Start(t)
	a.Plugin("hp")
	const many = 10
	for i := range many {
		id := fmt.Sprint("v", i)
		a.CreateVolume("hp", id)
		a.Register(kit.WithVolume(kit.ShellJob(id, forever), id))
	}
	for i := range many {
		a.Running(fmt.Sprint("v", i), 1)
	}
	for i := range many {
		a.Stop(fmt.Sprint("v", i), i%2 == 0)
	}
	a.Kill()
	a.Launch()
	for i := range many {
		a.Free(fmt.Sprint("v", i))
	}
	unmounted(t, a)
	a.Until(10*time.Second, "the shells to end", func() error {
		if n := len(a.Processes()); n > 2 {
			return fmt.Errorf("%d processes", n)
		}
		return nil
	})
}
