package faults

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// twice is a job that uses one volume in two ways, under the aliases.
func twice(id, volume, writes, reads string) *api.Job {
	j := kit.ShellJob(id, "echo here > writes/file; while :; do sleep 0.1; done")
	g := j.TaskGroups[0]
	g.Volumes = map[string]*api.VolumeRequest{
		writes: {
			Name: writes, Type: "csi", Source: volume, AccessMode: "multi-node-multi-writer", AttachmentMode: "file-system",
			MountOptions: &api.CSIMountOptions{MountFlags: []string{"nodev"}},
		},
		reads: {
			Name: reads, Type: "csi", Source: volume, AccessMode: "multi-node-multi-writer", AttachmentMode: "file-system", ReadOnly: true,
			MountOptions: &api.CSIMountOptions{MountFlags: []string{"noexec"}},
		},
	}
	g.Tasks[0].VolumeMounts = []*api.VolumeMount{
		{Volume: &writes, Destination: ptr("writes")}, {Volume: &reads, Destination: ptr("reads"), ReadOnly: ptr(true)},
	}
	return j
}

// options are those of the mounts of a task, by the last part of their path.
func options(t *testing.T, pid int) map[string][]string {
	t.Helper()
	body, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	for line := range strings.Lines(string(body)) {
		if words := strings.Fields(line); len(words) > 5 {
			found[words[4][strings.LastIndexByte(words[4], '/')+1:]] = strings.Split(words[5], ",")
		}
	}
	return found
}

func TestGroupUsesAVolumeTwiceInItsOwnWays(t *testing.T) {
	b := newBed(t, 1, true)
	b.many("v1")
	for i, aliases := range [][2]string{{"a", "b"}, {"b", "a"}} {
		job := fmt.Sprint("w", i)
		b.Register(twice(job, "v1", aliases[0], aliases[1]))
		b.runs(job, "v1", 15*time.Second)
		pids := b.nodes[0].Shells()
		if len(pids) != 1 {
			t.Fatalf("tasks are %v", pids)
		}
		has := options(t, pids[0])
		for at, want := range map[string]struct{ with, without []string }{
			"writes": {[]string{"rw", "nodev"}, []string{"noexec"}},
			"reads":  {[]string{"ro", "noexec"}, []string{"nodev"}},
		} {
			for _, o := range want.with {
				if !slices.Contains(has[at], o) {
					t.Errorf("aliases %v: %s is mounted %v, not %s", aliases, at, has[at], o)
				}
			}
			for _, o := range want.without {
				if slices.Contains(has[at], o) {
					t.Errorf("aliases %v: %s is mounted %v, with the %s of the other", aliases, at, has[at], o)
				}
			}
		}
		if n := b.Claimed("v1"); n != 2 {
			t.Errorf("%d claims, one for each use is wanted", n)
		}
		b.Stop(job, true)
		b.Free("v1")
	}
	stages, publishes := len(b.calls("v1", "NodeStageVolume")), len(b.calls("v1", "NodePublishVolume"))
	if stages != 2 || publishes != 4 {
		t.Errorf("%d stages and %d publishes for two jobs with two uses", stages, publishes)
	}

	// The volume has no block device to offer, and no task can have both.
	bad := twice("bad", "v1", "a", "b")
	bad.TaskGroups[0].Volumes["b"].AttachmentMode = "block-device"
	_, _, err := b.API.Jobs().Register(bad, nil)
	if err == nil || !strings.Contains(err.Error(), `"a"`) || !strings.Contains(err.Error(), `"b"`) {
		t.Errorf("a file system and a block device of one volume: %v", err)
	}
	if err == nil {
		b.Stop("bad", true)
	}
	b.clean()
	b.figure("a group names a volume twice: rw,nodev and ro,noexec", "each mount has its own flags, whatever the aliases", "one claim and one publish per use")
}
