package rawexec

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/cpulist"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

const (
	defaultMaxFiles      = 10
	defaultMaxFileSizeMB = 10
)

// specOf turns a task into what its supervising process needs.
func (d *Driver) specOf(t *driver.Task) (*frame.Spec, error) {
	t, isolation, err := d.plan(t)
	if err != nil {
		return nil, err
	}
	c, err := decode(t.Config)
	if err != nil {
		return nil, err
	}
	if !filepath.IsAbs(t.Dir) {
		return nil, fault.New(fault.Invalid, "task %s: directory %q is not absolute", t.ID, t.Dir)
	}
	s := &frame.Spec{
		TaskID: t.ID, State: d.statePath(t.ID), TaskDir: filepath.Clean(t.Dir), Dir: cmp.Or(c.WorkDir, d.baseOf(t)),
		Programs: programs(c.Command, d.baseOf(t), t.Env["PATH"]), Args: append([]string{c.Command}, c.Args...), OOMScore: int64(c.OOMScoreAdj),
		Isolation: isolation, Network: t.Network, Hostname: t.Hostname,
	}
	if t.AllocDir != "" {
		s.AllocDir = filepath.Clean(t.AllocDir)
	}
	denied := matcher(slices.Concat(d.config.DeniedEnvvars, c.DeniedEnvvars))
	for k, v := range t.Env {
		if !denied(k) {
			s.Env = append(s.Env, k+"="+v)
		}
	}
	slices.Sort(s.Env)
	for _, text := range slices.Concat(s.Args, s.Env, []string{s.Dir}) {
		if strings.ContainsRune(text, 0) {
			return nil, fault.New(fault.Invalid, "task %s: a NUL byte in its command, arguments or environment", t.ID)
		}
	}
	if !t.Logs.Disabled && t.Logs.Dir != "" {
		s.Stdout = filepath.Join(t.Logs.Dir, t.Name+".stdout")
		s.Stderr = filepath.Join(t.Logs.Dir, t.Name+".stderr")
		s.MaxFiles = int64(cmp.Or(t.Logs.MaxFiles, defaultMaxFiles))
		s.MaxFileBytes = int64(cmp.Or(t.Logs.MaxFileSizeMB, defaultMaxFileSizeMB)) << 20
	}
	d.setLease(s, t)
	if err := d.chooseCgroups(s, c, t); err != nil {
		return nil, err
	}
	if err := setUser(s, t.User); err != nil {
		return nil, err
	}
	s.Groups = append(s.Groups, t.Groups...)
	return s, errors.Join(d.allowed(t.ID, s.User, s.UID, s.GID, s.Groups), d.setMounts(s, t))
}

// programs lists where a command may be: as it is when absolute, else in the task's directories, else on
// the task's PATH.
func programs(command, base, path string) []string {
	if filepath.IsAbs(command) {
		return []string{command}
	}
	out := []string{filepath.Join(base, "local", command), filepath.Join(base, command)}
	if strings.ContainsRune(command, '/') {
		return out
	}
	for _, dir := range filepath.SplitList(cmp.Or(path, frame.DefaultPath)) {
		if filepath.IsAbs(dir) {
			out = append(out, filepath.Join(dir, command))
		}
	}
	return out
}

func setUser(s *frame.Spec, name string) error {
	if name == "" {
		return nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		if u, err = user.LookupId(name); err != nil {
			return fault.New(fault.Invalid, "task %s: unknown user %q", s.TaskID, name)
		}
	}
	groups, err := u.GroupIds()
	if err != nil {
		return fault.New(fault.Invalid, "task %s: groups of user %q: %w", s.TaskID, name, err)
	}
	if strconv.Itoa(os.Geteuid()) == u.Uid && os.Geteuid() != 0 {
		return nil
	}
	s.User = true
	s.UID, _ = strconv.ParseInt(u.Uid, 10, 64)
	s.GID, _ = strconv.ParseInt(u.Gid, 10, 64)
	for _, g := range groups {
		if id, err := strconv.ParseInt(g, 10, 64); err == nil {
			s.Groups = append(s.Groups, id)
		}
	}
	return nil
}

func setCores(s *frame.Spec, t *driver.Task) error {
	ids, err := cpulist.Parse(t.Resources.Cores)
	if err != nil {
		return fmt.Errorf("task %s: reserved cores: %w", t.ID, err)
	}
	for _, id := range ids {
		s.Cores = append(s.Cores, int64(id))
	}
	return nil
}

// setMounts makes destinations absolute and puts outer ones before those inside of them.
func (d *Driver) setMounts(s *frame.Spec, t *driver.Task) error {
	add := func(source, sub, dest, userNS string, readOnly bool) error {
		switch {
		case dest == "" || !filepath.IsAbs(source):
			return fault.New(fault.Invalid, "task %s: mount of %q at %q needs an absolute source and a destination", t.ID, source, dest)
		case sub != "" && !filepath.IsLocal(sub):
			return fault.New(fault.Invalid, "task %s: sub path %q of the mount at %q leaves the volume", t.ID, sub, dest)
		case !filepath.IsAbs(dest):
			if !filepath.IsLocal(dest) || filepath.Clean(dest) == "." {
				return fault.New(fault.Invalid, "task %s: mount destination %q leaves the task directory", t.ID, dest)
			}
			dest = filepath.Join(d.baseOf(t), dest)
		}
		if dest = filepath.Clean(dest); dest == "/" {
			return fault.New(fault.Invalid, "task %s: a mount cannot replace the root directory", t.ID)
		}
		s.Mounts = append(s.Mounts, frame.Mount{Source: source, Destination: dest, ReadOnly: readOnly, Sub: sub, UserNS: userNS})
		return nil
	}
	for _, m := range t.Mounts {
		switch m.Propagation {
		case "", "private", "host-to-task":
		default:
			return fault.New(fault.Invalid, "task %s: mount propagation %q is not possible with driver %s", t.ID, m.Propagation, d.Name())
		}
		if err := add(m.Source, m.SubPath, m.Destination, m.UserNS, m.ReadOnly); err != nil {
			return err
		}
	}
	for _, v := range t.Devices {
		if d.variant == nil && (v.TaskPath == "" || v.TaskPath == v.HostPath) {
			continue // an isolated task sees no device of the host
		}
		if err := add(v.HostPath, "", v.TaskPath, "", false); err != nil {
			return err
		}
	}
	slices.SortStableFunc(s.Mounts, func(a, b frame.Mount) int {
		return cmp.Compare(strings.Count(a.Destination, "/"), strings.Count(b.Destination, "/"))
	})
	return nil
}

// shards is the number of directories over which the files of tasks are spread, so that no directory grows large.
const shards = 16

func (d *Driver) shard(i uint64) string {
	return shardOf(d.config.StateDir, i)
}

func shardOf(dir string, i uint64) string { return filepath.Join(dir, fmt.Sprintf("%x", i%shards)) }

// statePath names the files of a task: readable, short, and different for different ids.
func (d *Driver) statePath(id string) string {
	h := fnv.New64a()
	h.Write([]byte(id))
	clean := strings.Map(func(r rune) rune {
		if r == '-' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, id)
	return filepath.Join(d.shard(h.Sum64()), fmt.Sprintf("%.60s-%016x", clean, h.Sum64()))
}
