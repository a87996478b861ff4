package limits

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api/fault"
)

// DefaultParent is the cgroup below which tasks get theirs, unless the configuration names another one.
const DefaultParent = "nomad.slice"

// Root is where hosts mount the hierarchies of cgroups.
const Root = "/sys/fs/cgroup"

// The controllers that limits need.
const (
	cpu    = "cpu"
	cpuset = "cpuset"
	memory = "memory"
	pids   = "pids"
)

var controllers = []string{cpu, cpuset, memory, pids}

// Host has the cgroups below which the tasks of a node get theirs. Use [Find]; a nil Host has none.
type Host struct {
	// unified is the cgroup for tasks in the hierarchy of version 2; empty when there is none.
	unified string
	// held maps a controller to the cgroup for tasks in its hierarchy, missing another one to the reason.
	held    map[string]string
	missing map[string]error
}

// CheckParent checks the name of a cgroup for tasks: a path below the root of each hierarchy.
func CheckParent(name string) error {
	if path := filepath.Clean("/" + name); path == "/" && name != "" || slices.Contains(strings.Split(name, "/"), "..") || strings.ContainsRune(name, 0) {
		return fault.New(fault.Invalid, "cgroup_parent: %q is no path of a cgroup below the root; use a name such as %q", name, DefaultParent)
	}
	return nil
}

// Find makes the cgroups for tasks, with the name in each hierarchy, and determines which controllers they have. An empty name
// is [DefaultParent].
func Find(parent string) *Host { return find(Root, Version, parent) }

// Version is the version of the cgroups that are mounted at a directory: 1, 2, or 0 for none.
func Version(dir string) int {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return 0
	}
	switch st.Type {
	case unix.CGROUP_SUPER_MAGIC:
		return 1
	case unix.CGROUP2_SUPER_MAGIC:
		return 2
	}
	return 0
}

// Unified is the root of the hierarchy of version 2, on hosts with that version or both; empty when there is none.
func Unified() string { return unifiedBelow(Root, Version) }

func unifiedBelow(root string, version func(dir string) int) string {
	for _, dir := range []string{root, filepath.Join(root, "unified")} {
		if version(dir) == 2 {
			return dir
		}
	}
	return ""
}

func find(root string, version func(dir string) int, parent string) *Host {
	h := &Host{held: map[string]string{}, missing: map[string]error{}}
	names := strings.Split(filepath.Clean("/" + cmp.Or(parent, DefaultParent))[1:], "/")
	for _, c := range controllers {
		h.missing[c] = errors.New("the host has not mounted it")
		top := filepath.Join(root, c)
		if version(top) != 1 {
			continue
		}
		dir, err := makeBelow(top, names, func(dir string, made bool) error { return inherit(c, dir, made) })
		h.note(c, dir, err)
	}
	top := unifiedBelow(root, version)
	if top == "" {
		return h
	}
	delegate(top)
	dir, err := makeBelow(top, names, func(dir string, _ bool) error { delegate(dir); return nil })
	if err != nil {
		return h
	}
	h.unified = dir
	for _, c := range controllers {
		if h.held[c] == "" && lists(filepath.Join(top, "cgroup.controllers"), c) {
			h.note(c, dir, delegated(top, names, c))
		}
	}
	return h
}

func (h *Host) note(controller, dir string, err error) {
	if err != nil {
		h.missing[controller] = err
		return
	}
	h.held[controller] = dir
	delete(h.missing, controller)
}

// makeBelow makes a cgroup, with those on the way to it, and prepares each.
func makeBelow(dir string, names []string, prepare func(dir string, made bool) error) (string, error) {
	for _, name := range names {
		dir = filepath.Join(dir, name)
		err := os.Mkdir(dir, 0o755)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return "", err
		}
		if err := prepare(dir, err == nil); err != nil {
			return "", err
		}
	}
	if err := unix.Access(dir, unix.W_OK); err != nil {
		return "", fmt.Errorf("write to %s: %w", dir, err)
	}
	return dir, nil
}

// usualShares is what the kernel gives a process or a cgroup of version 1 that has no other shares.
const usualShares = 1024

// inherit gives a cgroup of version 1 what processes in it need. All tasks of a node have the share of all of its processors:
// with that of one cgroup they would get as little as one process of the host that is not in a cgroup.
func inherit(controller, dir string, made bool) error {
	switch {
	case controller == cpu && made:
		return os.WriteFile(filepath.Join(dir, "cpu.shares"), []byte(strconv.Itoa(usualShares*runtime.NumCPU())), 0o600)
	case controller != cpuset:
		return nil
	}
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		all, err := os.ReadFile(filepath.Join(filepath.Dir(dir), file))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, file), all, 0) //nolint:gosec // a file of a cgroup
		}
		if err != nil {
			return err
		}
	}
	return nil
}

const subtree = "cgroup.subtree_control"

// delegate lets the cgroups in a directory have the controllers, as far as that is possible: another one may be in use by version 1.
func delegate(dir string) {
	for _, c := range controllers {
		_ = os.WriteFile(filepath.Join(dir, subtree), []byte("+"+c), 0)
	}
}

// delegated returns why the cgroups of tasks cannot have a controller of version 2.
func delegated(top string, names []string, controller string) error {
	for i := range len(names) + 1 {
		dir := filepath.Join(append([]string{top}, names[:i]...)...)
		if lists(filepath.Join(dir, subtree), controller) {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, subtree), []byte("+"+controller), 0); err != nil {
			return fmt.Errorf("delegate it: %w", err)
		}
	}
	return nil
}

// lists reports whether a file lists a word.
func lists(file, word string) bool {
	b, _ := os.ReadFile(file)
	return slices.Contains(strings.Fields(string(b)), word)
}

// Parents are the cgroups below which those of tasks are.
func (h *Host) Parents() []string {
	if h == nil {
		return nil
	}
	out := []string{h.unified}
	for _, dir := range h.held {
		out = append(out, dir)
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(dir string) bool { return dir == "" })
}

// Controllers lists the controllers that tasks can have, sorted.
func (h *Host) Controllers() (out []string) {
	for _, c := range controllers {
		if h != nil && h.held[c] != "" {
			out = append(out, c)
		}
	}
	return out
}

// Ready returns why this host cannot hold tasks to their processor time and memory; nil when it can.
func (h *Host) Ready() error {
	for _, c := range []string{cpu, memory} {
		if h == nil || h.held[c] == "" {
			err := errors.New("cgroups are not used")
			if h != nil {
				err = h.missing[c]
			}
			return fault.New(fault.Unavailable, "no limits are possible: controller %s of cgroups: %w; mount cgroups writable below %s", c, err, Root)
		}
	}
	return nil
}
