package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// createAs creates a volume that can be used in one way.
func createAs(t *testing.T, a *kit.Agent, id string, access api.CSIVolumeAccessMode, attachment api.CSIVolumeAttachmentMode) {
	t.Helper()
	_, _, err := a.API.CSIVolumes().Create(&api.CSIVolume{
		ID: id, Name: id, Namespace: "default", PluginID: "hp", RequestedCapacityMin: 1 << 20,
		RequestedCapabilities: []*api.CSIVolumeCapability{{AccessMode: access, AttachmentMode: attachment}},
	}, nil)
	if err != nil {
		t.Fatalf("create volume %s: %v", id, err)
	}
}

// says waits until the log of the job's allocation holds the text.
func says(t *testing.T, a *kit.Agent, alloc, text string) {
	t.Helper()
	a.Until(10*time.Second, "the log of "+alloc, func() error {
		out, _ := a.Run("alloc", "logs", alloc)
		errs, _ := a.Run("alloc", "logs", "-stderr", alloc)
		if !strings.Contains(out+errs, text) {
			return fmt.Errorf("it is %q and %q", out, errs)
		}
		return nil
	})
}

func TestVolumeThroughAnAttachment(t *testing.T) {
	t.Parallel()
	a := kit.Start(t)
	a.Plugin("hp", "-attach")
	a.CreateVolume("hp", "v1")
	a.Register(kit.WithVolume(kit.ShellJob("w", forever), "v1"))
	alloc := a.Running("w", 1)

	attached := func() {
		t.Helper()
		got := claimsOf(t, a, "v1").Attachments
		if len(got) != 1 || got[0].NodeID != alloc.NodeID || got[0].State != "published" {
			t.Fatalf("attachments are %+v", got)
		}
	}
	attached()
	out, code := a.Run("volume", "status", "v1")
	if _, section, found := strings.Cut(out, "Attachments"); code != 0 || !found || !strings.Contains(section, "published") {
		t.Errorf("exit %d, the attachment is not in the status:\n%s", code, out)
	}
	a.Kill()
	a.Launch()
	if now := a.Running("w", 1); now.ID != alloc.ID {
		t.Fatalf("allocation %s was replaced by %s", alloc.ID, now.ID)
	}
	a.PluginHealthy("hp")
	attached()
	a.Stop("w", false)
	a.Free("v1")
	a.Until(10*time.Second, "the attachment to go", func() error {
		if got := claimsOf(t, a, "v1"); len(got.Attachments)+len(got.Claims) != 0 {
			return fmt.Errorf("left are %+v", got)
		}
		return nil
	})
	unmounted(t, a)
	noViolation(t, a)
	if out, code := a.Run("volume", "delete", "v1"); code != 0 {
		t.Errorf("the driver does not let it go: exit %d: %s", code, out)
	}
}

func TestBlockDeviceVolume(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		t.Skip("no loop devices here")
	}
	a := kit.Start(t)
	a.Plugin("hp")
	createAs(t, a, "v1", api.CSIVolumeAccessModeSingleNodeWriter, api.CSIVolumeAttachmentModeBlockDevice)
	block := func(id, script string) *api.Job {
		job := kit.WithVolume(kit.ShellJob(id, script), "v1")
		job.TaskGroups[0].Volumes["data"].AttachmentMode = string(api.CSIVolumeAttachmentModeBlockDevice)
		return job
	}
	a.Register(block("writer", "test -b data && echo is a device; printf block-of-data | dd of=data conv=fsync,notrunc; exec sleep 1000"))
	alloc := a.Running("writer", 1)
	says(t, a, alloc.ID, "is a device")
	says(t, a, alloc.ID, "copied")
	if len(loops(t, a)) != 1 {
		t.Fatalf("loop devices are %q", loops(t, a))
	}
	a.Stop("writer", false)
	a.Free("v1")
	released := func() {
		t.Helper()
		a.Until(10*time.Second, "the loop device to go", func() error {
			if left := loops(t, a); len(left) != 0 {
				return fmt.Errorf("left are %q", left)
			}
			return none(a.Mounts(), "/csi/node/", "/csi/monolith/")
		})
	}
	released()

	a.Register(block("reader", "head -c 13 data; echo; exec sleep 1000"))
	says(t, a, a.Running("reader", 1).ID, "block-of-data")
	a.Kill()
	a.Launch()
	a.PluginHealthy("hp")
	a.Stop("reader", false)
	a.Free("v1")
	released()
}

// loops are the loop devices over files of the agent's directory.
func loops(t *testing.T, a *kit.Agent) []string {
	t.Helper()
	out, err := exec.Command("losetup", "-a").Output()
	if err != nil {
		t.Skipf("losetup: %v", err)
	}
	return slices.DeleteFunc(strings.Split(string(out), "\n"), func(line string) bool { return !strings.Contains(line, a.Dir+"/") })
}

func TestVolumePerAllocation(t *testing.T) {
	t.Parallel()
	a := kit.Start(t)
	a.Plugin("hp")
	ids := []string{"v[0]", "v[1]", "v[2]"}
	for _, id := range ids {
		a.CreateVolume("hp", id)
	}
	scaled := func(count int) *api.Job {
		job := kit.WithVolume(kit.ShellJob("w", "echo $NOMAD_ALLOC_INDEX > data/index; exec sleep 1000"), "v")
		job.TaskGroups[0].Count, job.TaskGroups[0].Volumes["data"].PerAlloc = &count, true
		return job
	}
	check := func(count int) {
		t.Helper()
		a.Running("w", count)
		for i, id := range ids {
			var want []string
			for _, stub := range a.Allocs("w", "running") {
				if stub.Name == fmt.Sprintf("w.g[%d]", i) {
					want = append(want, stub.ID)
				}
			}
			a.Until(10*time.Second, "the claims of "+id, func() error {
				if got := holders(volume(t, a, id)); !slices.Equal(got, want) || (i < count) != (len(want) == 1) {
					return fmt.Errorf("held by %q instead of %q", got, want)
				}
				return nil
			})
		}
	}
	a.Register(scaled(3))
	check(3)
	a.Until(10*time.Second, "an index on each volume", func() error {
		found, _ := filepath.Glob(a.Dir + "/hp/data/*/index")
		seen := map[string]bool{}
		for _, path := range found {
			body, _ := os.ReadFile(path)
			seen[strings.TrimSpace(string(body))] = true
		}
		if !seen["0"] || !seen["1"] || !seen["2"] {
			return fmt.Errorf("written are %v", seen)
		}
		return nil
	})
	kept := a.Allocs("w", "running")
	a.Register(scaled(1))
	check(1)
	if now := a.Running("w", 1); !slices.ContainsFunc(kept, func(s *api.AllocationListStub) bool { return s.ID == now.ID }) {
		t.Errorf("scaling down replaced the allocation that stays by %s", now.ID)
	}
	a.Register(scaled(2))
	check(2)
	a.Stop("w", false)
	for _, id := range ids {
		a.Free(id)
	}
	unmounted(t, a)
}

func TestReadersShareAVolume(t *testing.T) {
	t.Parallel()
	for _, way := range []struct {
		name   string
		create api.CSIVolumeAccessMode
		ask    string
	}{
		{"multi node reader", api.CSIVolumeAccessModeMultiNodeReader, "multi-node-reader-only"},
		{"read only of a volume for writers", api.CSIVolumeAccessModeMultiNodeMultiWriter, "multi-node-multi-writer"},
	} {
		t.Run(way.name, func(t *testing.T) {
			a := kit.Start(t)
			a.Plugin("hp")
			createAs(t, a, "v1", way.create, api.CSIVolumeAttachmentModeFilesystem)
			seed(t, a)
			for _, id := range []string{"left", "right"} {
				job := kit.WithVolume(kit.ShellJob(id, "cat data/seed; touch data/new || echo refused; exec sleep 1000"), "v1")
				job.TaskGroups[0].Volumes["data"].AccessMode, job.TaskGroups[0].Volumes["data"].ReadOnly = way.ask, true
				a.Register(job)
			}
			for _, id := range []string{"left", "right"} {
				alloc := a.Running(id, 1).ID
				for _, text := range []string{"seeded", "Read-only file system", "refused"} {
					says(t, a, alloc, text)
				}
			}
			if v := volume(t, a, "v1"); len(v.ReadAllocs) != 2 || len(v.WriteAllocs) != 0 {
				t.Errorf("%d readers, %d writers", len(v.ReadAllocs), len(v.WriteAllocs))
			}
			a.Stop("left", false)
			a.Until(10*time.Second, "one claim to go", func() error {
				if n := a.Claimed("v1"); n != 1 {
					return fmt.Errorf("%d claims", n)
				}
				return nil
			})
			a.Stop("right", false)
			a.Free("v1")
			unmounted(t, a)
			if found, _ := filepath.Glob(a.Dir + "/hp/data/*/new"); len(found) != 0 {
				t.Errorf("a reader wrote %q", found)
			}
		})
	}
}

// seed puts a file on the only volume, behind everybody's back.
func seed(t *testing.T, a *kit.Agent) {
	t.Helper()
	found, _ := filepath.Glob(a.Dir + "/hp/data/*")
	if len(found) != 1 {
		t.Fatalf("volumes are %q", found)
	}
	if err := os.WriteFile(found[0]+"/seed", []byte("seeded\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}
