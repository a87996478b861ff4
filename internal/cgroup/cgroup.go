// Package cgroup lists and removes cgroups with those that were made in them. Drivers of tasks and the supervision of plugins
// share it.
package cgroup

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Tree lists the directories of a cgroup and of those in it, the outer ones first. What has gone meanwhile is left out.
func Tree(dir string) (all []string) {
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			all = append(all, path)
		}
		return nil
	})
	return all
}

// Remove removes a cgroup with those in it. The error is that of the outermost; one that is not there is none.
func Remove(dir string) (err error) {
	for _, d := range slices.Backward(Tree(dir)) {
		err = os.Remove(d)
	}
	return err
}

// Processes lists the processes of one cgroup; none when it cannot be read, or without a name.
func Processes(dir string) (pids []int) {
	if dir == "" {
		return nil
	}
	raw, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil
	}
	for _, f := range strings.Fields(string(raw)) {
		if pid, err := strconv.Atoi(f); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// ProcessesBelow lists the processes of a cgroup and of those in it.
func ProcessesBelow(dir string) (pids []int) {
	for _, d := range Tree(dir) {
		pids = append(pids, Processes(d)...)
	}
	return pids
}
