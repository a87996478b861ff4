package main

import (
	"runtime"
	"syscall"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// cgroupMount is where the controllers of cgroup version 1 are mounted.
const cgroupMount = "/sys/fs/cgroup"

// needs reports whether the task may not run without the limits of one of its cgroups.
func needs(spec *frame.Spec, dir string) bool {
	for i := range spec.Limits {
		if spec.Limits[i].Must && spec.Limits[i].Dir == dir {
			return true
		}
	}
	return false
}

// missed is the failure of a cgroup; nil when the task may run without it.
func missed(spec *frame.Spec, dir, what string, err error) *frame.Failed {
	if !needs(spec, dir) {
		return nil
	}
	return failed(true, "limits of the task: "+what+" cgroup "+dir+": "+err.Error())
}

// setLimits writes the limits of a cgroup, and reports whether all are set. The kernel may not have those that need not be.
func setLimits(spec *frame.Spec, dir string) (whole bool, f *frame.Failed) {
	whole = true
	for _, l := range spec.Limits {
		if l.Dir != dir {
			continue
		}
		if err := write(dir+"/"+l.File, l.Value); err != nil {
			if whole = false; l.Must {
				return false, failed(true, "limits of the task: write "+l.Value+" to "+l.File+" of cgroup "+dir+": "+err.Error())
			}
		}
	}
	return whole, nil
}

// makeScopes makes the task's cgroups of version 1. One whose limits cannot be set is left out if the task may run without
// it: without a cpuset the pinned cores stay the task's own will.
func makeScopes(spec *frame.Spec) *frame.Failed {
	made := spec.Scopes[:0]
	for _, dir := range spec.Scopes {
		removeTree(dir)
		if err := syscall.Mkdir(dir, 0o755); err != nil && err != syscall.EEXIST {
			if f := missed(spec, dir, "make", err); f != nil {
				return f
			}
			continue
		}
		whole, f := setLimits(spec, dir)
		if f != nil {
			removeTree(dir)
			return f
		}
		if !whole && !needs(spec, dir) {
			removeTree(dir)
			continue
		}
		made = append(made, dir)
	}
	spec.Scopes = made
	return nil
}

func removeScopes(spec *frame.Spec) {
	for _, dir := range spec.Scopes {
		removeTree(dir)
	}
}

// join moves this thread into the task's cgroups of version 1 and those that the job names, so that what it forks is there.
// It returns how to leave them: a supervising process that stays could be frozen, or killed for want of memory, with its
// task, and end nothing. The thread goes to the directory above that of the task, which has no limits, or to the root of
// the controller that the job names, because the cgroup that it was in may be out of sight. To move one thread alone is cheap:
// the kernel need not hold up the forks of the host.
func join(spec *frame.Spec) (leave func(), f *frame.Failed) {
	if len(spec.Join)+len(spec.Scopes) == 0 {
		return func() {}, nil
	}
	runtime.LockOSThread()
	var left []string
	leave = func() {
		for _, dir := range left {
			writeFile(dir+"/tasks", "0")
		}
		runtime.UnlockOSThread()
	}
	for _, dir := range spec.Scopes {
		if err := write(dir+"/tasks", "0"); err == nil {
			left = append(left, dirOf(dir))
		} else if f := missed(spec, dir, "join", err); f != nil {
			leave()
			return nil, f
		}
	}
	for _, dir := range spec.Join {
		text := ""
		if state := readFile(dir + "/freezer.state"); state != "" && state != "THAWED\n" {
			text = "it is frozen" // and would stop this thread
		} else if err := write(dir+"/tasks", "0"); err != nil {
			text = err.Error()
		}
		if text != "" {
			leave()
			return nil, failed(false, "\"cgroup_v1_override\": join cgroup "+dir+": "+text)
		}
		left = append(left, rootOf(dir))
	}
	return leave, nil
}

// rootOf is the directory of the controller that a cgroup of version 1 is of.
func rootOf(dir string) string {
	for below(dirOf(dir), cgroupMount) {
		dir = dirOf(dir)
	}
	return dir
}

// oomKilled reports whether the kernel has ended a process of the task for want of memory since it started.
func (s *supervisor) oomKilled() bool { return oomKills(&s.spec) != s.kills }

// oomKills is how many processes in the cgroups of the task the kernel has ended for want of memory, as texts.
func oomKills(spec *frame.Spec) (counts string) {
	if spec.Cgroup != "" {
		counts = countOf(readFile(spec.Cgroup+"/memory.events"), "oom_kill ")
	}
	for _, dir := range spec.Scopes {
		counts += "/" + countOf(readFile(dir+"/memory.oom_control"), "oom_kill ")
	}
	return counts
}

// countOf is the value of a key, with the space behind it, in a file of keys and values; empty when there is none.
func countOf(text, key string) string {
	for i := 0; i+len(key) < len(text); i++ {
		if text[i:i+len(key)] == key && (i == 0 || text[i-1] == '\n') {
			end := i + len(key)
			for end < len(text) && text[end] != '\n' {
				end++
			}
			return text[i+len(key) : end]
		}
	}
	return ""
}
