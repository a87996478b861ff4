package limits

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// fake makes the files of a host whose hierarchies have the versions. The controllers are those of version 2.
func fake(t *testing.T, versions map[string]int, controllers string) *Host {
	t.Helper()
	root := t.TempDir()
	for dir, version := range versions {
		dir = filepath.Join(root, dir)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string]string{"cgroup.controllers": controllers, "cpuset.cpus": "0-3\n", "cpuset.mems": "0\n"} {
			if version == 2 == (file == "cgroup.controllers") {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return find(root, func(dir string) int {
		rest, _ := filepath.Rel(root, dir)
		return versions[rest]
	}, "a/tasks")
}

var (
	version1 = map[string]int{"cpu": 1, "cpuset": 1, "memory": 1, "pids": 1}
	hybrid   = map[string]int{"cpu": 1, "cpuset": 1, "memory": 1, "pids": 1, "unified": 2}
	version2 = map[string]int{".": 2}
)

// shown lists the limits of a specification without the directories above those of tasks.
func shown(s *frame.Spec) string {
	var out []string
	for _, l := range s.Limits {
		parts := strings.Split(l.Dir, "/")
		must := ""
		if l.Must {
			must = "!"
		}
		out = append(out, fmt.Sprintf("%s/%s%s=%s", parts[len(parts)-4], l.File, must, l.Value))
	}
	return strings.Join(out, " ")
}

func TestLimitsOfEachKindOfHost(t *testing.T) {
	const one = "cpu/cpu.shares!=500 cpuset/cpuset.mems=0 cpuset/cpuset.cpus=1,3 memory/memory.soft_limit_in_bytes=40 memory/memory.limit_in_bytes!=64 memory/memory.memsw.limit_in_bytes=64 memory/memory.swappiness=0 pids/pids.max!=9"
	for _, c := range []struct {
		name        string
		versions    map[string]int
		controllers string
		must, own   bool
		want        string
	}{
		{"version 1", version1, "", true, false, one},
		{"both", hybrid, "", true, true, one},
		{"version 2", version2, "cpu cpuset memory pids", true, true, "cpu.weight!=19 cpuset.cpus=1,3 memory.low=40 memory.max!=64 memory.swap.max=0 pids.max!=9"},
		{"version 1 without need", version1, "", false, false, "cpuset/cpuset.mems=0 cpuset/cpuset.cpus=1,3"},
		{"version 2 without need", version2, "cpu cpuset memory pids", false, true, "cpu.weight=19 cpuset.cpus=1,3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := fake(t, c.versions, c.controllers)
			s := &frame.Spec{Cgroup: h.Cgroup("t")}
			if err := h.Set(s, "t", Ask{CPU: 500, Cores: []int64{1, 3}, Memory: 64, Soft: 40, PIDs: 9, Must: c.must}); err != nil {
				t.Fatal(err)
			}
			got := shown(s)
			if c.versions["."] == 2 { // all are in one directory
				got = strings.ReplaceAll(got, filepath.Base(filepath.Dir(filepath.Dir(filepath.Dir(s.Cgroup))))+"/", "")
			}
			if got != c.want || (s.Cgroup != "") != c.own {
				t.Errorf("limits %s\nwant %s, own cgroup %q", got, c.want, s.Cgroup)
			}
		})
	}
}

func TestHostWithoutAController(t *testing.T) {
	if err := fake(t, version2, "cpu pids").Ready(); err == nil || !strings.Contains(err.Error(), "controller memory of cgroups: the host has not mounted it") {
		t.Error(err)
	}
	var none *Host
	if err := none.Ready(); err == nil || none.Cgroup("t") != "" || none.Scopes("t") != nil || none.Set(&frame.Spec{}, "t", Ask{CPU: 1}) != nil {
		t.Errorf("a host without cgroups: %v", err)
	}
}

func TestNamesOfCgroups(t *testing.T) {
	for name, valid := range map[string]bool{"": true, "nomad.slice": true, "/a/b": true, "/": false, "a/../..": false, ".": false} {
		if err := CheckParent(name); (err == nil) != valid {
			t.Errorf("%q: %v", name, err)
		}
	}
	h := fake(t, hybrid, "")
	own := h.Cgroup("t")
	if !h.Owns(own) || !h.Owns(own+"/x") || h.Owns(filepath.Dir(own)) || h.Owns(filepath.Dir(own)+"/other") {
		t.Error("the cgroup of a task is taken for another one")
	}
	if got := h.Controllers(); !slices.Equal(got, controllers) {
		t.Errorf("controllers %v", got)
	}
}
