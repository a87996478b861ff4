package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
	"github.com/open-nomad/open-nomad/internal/soaktest"
)

// forever holds its volume: it notes each instance and each beat, which shows when two overlap.
const forever = `echo start $NOMAD_ALLOC_ID >> data/journal; trap 'echo stop $NOMAD_ALLOC_ID >> data/journal; exit 0' INT TERM; while :; do echo beat $NOMAD_ALLOC_ID >> data/journal; sleep 0.05; done`

func TestJobWritesAndAnotherReadsBack(t *testing.T) {
	t.Parallel()
	a := kit.Start(t)
	a.Plugin("hp")
	a.CreateVolume("hp", "v1")
	a.Register(kit.WithVolume(kit.ShellJob("writer", "echo hello > data/file; exec sleep 1000"), "v1"))
	a.Running("writer", 1)
	if n := a.Claimed("v1"); n != 1 {
		t.Fatalf("%d claims while the job runs", n)
	}
	a.Until(10*time.Second, "the writer's word", func() error {
		found, _ := filepath.Glob(a.Dir + "/hp/data/*/file")
		if len(found) != 1 {
			return fmt.Errorf("files are %q", found)
		}
		body, err := os.ReadFile(found[0])
		if err == nil && string(body) != "hello\n" {
			err = fmt.Errorf("it is %q", body)
		}
		return err
	})
	a.Stop("writer", false)
	t.Logf("claim free after %v", a.Free("v1"))

	reader := kit.WithVolume(kit.ShellJob("reader", "cat data/file; exec sleep 1000"), "v1")
	a.Register(reader)
	alloc := a.Running("reader", 1)
	a.Until(10*time.Second, "the reader's log", func() error {
		out, _ := a.Run("alloc", "logs", alloc.ID)
		if !strings.Contains(out, "hello") {
			return fmt.Errorf("log is %q", out)
		}
		return nil
	})
}

func TestVolumeMountsStayOutOfTheHost(t *testing.T) {
	t.Parallel()
	a := kit.Start(t)
	a.Plugin("hp")
	a.CreateVolume("hp", "v1")
	job := kit.WithVolume(kit.ShellJob("deep", "echo inside > /srv/e2e-not-on-host/deep/file && exec sleep 1000"), "v1")
	dest := "/srv/e2e-not-on-host/deep"
	job.TaskGroups[0].Tasks[0].VolumeMounts[0].Destination = &dest
	a.Register(job)
	a.Running("deep", 1)
	a.Until(5*time.Second, "the file on the volume", func() error {
		if found, _ := filepath.Glob(a.Dir + "/hp/data/*/file"); len(found) == 0 {
			return fmt.Errorf("not there")
		}
		return nil
	})
	if _, err := os.Lstat("/srv/e2e-not-on-host"); !os.IsNotExist(err) {
		t.Fatalf("the host's tree got /srv/e2e-not-on-host: %v", err)
	}
}

func TestPluginKilledWhileMounted(t *testing.T) {
	t.Parallel()
	a := kit.Start(t)
	a.Plugin("hp")
	a.CreateVolume("hp", "v1")
	a.Register(kit.WithVolume(kit.ShellJob("w", forever), "v1"))
	a.Running("w", 1)

	plugin := a.Running("hp", 1)
	a.StopPlugin("hp")
	a.Until(20*time.Second, "the plugin to stop", func() error {
		if len(a.Allocs("hp", "running")) != 0 {
			return fmt.Errorf("%s runs", plugin.ID)
		}
		return nil
	})
	a.Stop("w", false)
	a.Until(20*time.Second, "the workload to end", func() error {
		if n := len(a.Allocs("w", "complete")); n != 1 {
			return fmt.Errorf("%d complete", n)
		}
		return nil
	})
	if a.Claimed("v1") != 1 {
		t.Fatal("the claim was freed although nobody unmounted the volume")
	}
	a.Plugin("hp")
	t.Logf("claim free %v after the plugin is back", a.Free("v1"))
	a.Until(10*time.Second, "the mounts to go", func() error { return none(a.Mounts(), "/csi/node/", "/csi/monolith/") })
}

func TestManyCyclesLeaveNothing(t *testing.T) {
	t.Parallel()
	a := kit.Start(t)
	a.Plugin("hp")
	a.CreateVolume("hp", "v1")
	cycle := func() {
		a.Register(kit.WithVolume(kit.ShellJob("cycle", "exec sleep 1000"), "v1"))
		a.Running("cycle", 1)
		a.Stop("cycle", true)
		a.Free("v1")
	}
	cycle()
	settle := func() (mounts, sockets, processes, goroutines int) {
		a.Until(10*time.Second, "the processes to end", func() error {
			if n := len(a.Processes()); n > 2 {
				return fmt.Errorf("%d processes", n)
			}
			return none(a.Mounts(), "/csi/node/", "/csi/monolith/")
		})
		return len(a.Mounts()), len(a.Sockets()), len(a.Processes()), a.Goroutines()
	}
	m0, s0, p0, g0 := settle()
	cycles := soaktest.Rounds(20, 200)
	for range cycles {
		cycle()
	}
	m1, s1, p1, g1 := settle()
	t.Logf("before and after %d cycles: mounts %d %d, sockets %d %d, processes %d %d, goroutines %d %d", cycles, m0, m1, s0, s1, p0, p1, g0, g1)
	if m1 > m0 || s1 > s0 || p1 > p0 || g1 > g0+10 {
		t.Error("something is left over")
	}
}
