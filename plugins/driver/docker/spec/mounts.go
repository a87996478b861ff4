package spec

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/mount"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/docker/config"
)

func numCPU() int { return goruntime.NumCPU() }

// bind is a path of the host that the container sees.
type bind struct {
	source, target, propagation string
	readOnly                    bool
	// label is z or Z when the engine is to set the SELinux label.
	label string
}

// setMounts adds the task's directories, its volumes, and what its config asks for.
func (s *Spec) setMounts(in Input) error {
	t, c := in.Task, in.Config
	label := in.Plugin.Volumes.SELinuxLabel
	binds, err := taskDirs(t, label)
	if err != nil {
		return err
	}
	for _, m := range t.Mounts {
		if s.Joiner != nil && m.Destination == HostsFile {
			continue // the engine writes the file
		}
		if s.Joiner != nil && m.Destination == ResolvFile && ownDNS(c) {
			continue
		}
		b := bind{target: filepath.Join("/", m.Destination), readOnly: m.ReadOnly, label: cmp.Or(m.SELinuxLabel, label)}
		if b.propagation, err = propagation(t, m.Propagation); err != nil {
			return err
		}
		if b.source, err = s.volume(t, m); err != nil {
			return err
		}
		binds = append(binds, b)
	}
	for _, text := range c.Volumes {
		v, err := config.ParseVolume(text)
		if err != nil {
			return err
		}
		if c.VolumeDriver != "" && !strings.ContainsRune(v.Source, '/') {
			s.Options.HostConfig.Binds = append(s.Options.HostConfig.Binds, text) // a volume of the engine
			continue
		}
		b := bind{target: v.Target, readOnly: v.ReadOnly, propagation: v.Propagation, label: cmp.Or(v.Label, label)}
		if b.source, err = s.hostPath(in, "volumes", v.Source, true); err != nil {
			return err
		}
		binds = append(binds, b)
	}
	for _, m := range c.Mount {
		if d := m.Volume.Driver; m.Type == "volume" && (d.Name != "" || len(d.Options) > 0) && !in.Plugin.Volumes.Enabled {
			return invalid(t, `"mount.volume_options.driver_config" needs "volumes { enabled = true }" in the plugin block of the node's agent`)
		}
		if m.Type != "bind" {
			s.Options.HostConfig.Mounts = append(s.Options.HostConfig.Mounts, volumeMount(m))
			continue
		}
		b := bind{target: m.Target, readOnly: m.ReadOnly, propagation: m.Bind.Propagation}
		if b.source, err = s.hostPath(in, "mount.source", m.Source, false); err != nil {
			return err
		}
		binds = append(binds, b)
	}
	for _, b := range binds {
		if err := s.addBind(t, b); err != nil {
			return err
		}
	}
	return nil
}

// addBind writes a bind in the form that can express it: the one with a label needs another.
func (s *Spec) addBind(t *driver.Task, b bind) error {
	if filepath.Clean(b.target) == "/" || !filepath.IsAbs(b.target) {
		return invalid(t, "a mount at %q is not possible: it must be an absolute path that is not the root directory", b.target)
	}
	h := s.Options.HostConfig
	if b.label == "" {
		m := mount.Mount{Type: mount.TypeBind, Source: b.source, Target: b.target, ReadOnly: b.readOnly}
		if b.propagation != "" {
			m.BindOptions = &mount.BindOptions{Propagation: mount.Propagation(b.propagation)}
		}
		h.Mounts = append(h.Mounts, m)
		return nil
	}
	words := []string{"rw", b.label}
	if b.readOnly {
		words[0] = "ro"
	}
	if b.propagation != "" {
		words = append(words, b.propagation)
	}
	if strings.ContainsRune(b.source+b.target, ':') {
		return invalid(t, "mount of %q at %q: paths with a colon are not possible with an SELinux label", b.source, b.target)
	}
	h.Binds = append(h.Binds, strings.Join([]string{b.source, b.target, strings.Join(words, ",")}, ":"))
	return nil
}

// taskDirs are the directories that every task has.
func taskDirs(t *driver.Task, label string) ([]bind, error) {
	local := filepath.Join(t.Dir, "local")
	if err := os.MkdirAll(local, 0o777); err != nil {
		return nil, fmt.Errorf("task %s: %w", t.Name, err)
	}
	out := []bind{{source: t.AllocDir, target: "/alloc", label: label}, {source: local, target: "/local", label: label}}
	if t.SecretsDir != "" {
		out = append(out, bind{source: t.SecretsDir, target: "/secrets", label: label})
	}
	for _, b := range out {
		info, err := os.Lstat(b.source)
		if err != nil {
			return nil, fmt.Errorf("task %s: %w", t.Name, err)
		}
		if !info.IsDir() {
			return nil, invalid(t, "%s, which it sees at %s, is not a directory", b.source, b.target)
		}
	}
	return out, nil
}

func propagation(t *driver.Task, mode string) (string, error) {
	switch mode {
	case "", "private":
		return "rprivate", nil
	case "host-to-task":
		return "rslave", nil
	case "bidirectional":
		return "rshared", nil
	}
	return "", invalid(t, "mount propagation %q is not possible: want private, host-to-task or bidirectional", mode)
}

// volume is the source of a volume; a sub path is reached without following links.
func (s *Spec) volume(t *driver.Task, m driver.Mount) (string, error) {
	if !filepath.IsAbs(m.Source) {
		return "", invalid(t, "mount of %q at %q needs an absolute source", m.Source, m.Destination)
	}
	if m.SubPath == "" && m.UserNS == "" {
		return m.Source, nil
	}
	sub := cmp.Or(m.SubPath, ".")
	if !filepath.IsLocal(sub) {
		return "", invalid(t, "sub path %q of the mount at %q leaves the volume", m.SubPath, m.Destination)
	}
	source, err := s.bindPath(m.Source, sub, m.UserNS, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_MAGICLINKS)
	if err != nil {
		if m.SubPath == "" {
			return "", invalid(t, "mount of %q at %q: %w", m.Source, m.Destination, err)
		}
		return "", invalid(t, "sub path %q of the mount at %q: %w", m.SubPath, m.Destination, err)
	}
	return source, nil
}

// hostPath is the source of a mount that the config asks for. A relative path lies in the task's directory. Paths outside
// of the allocation need the permission of the node's agent.
func (s *Spec) hostPath(in Input, key, source string, create bool) (string, error) {
	t := in.Task
	root, rel := filepath.Dir(t.Dir), filepath.Join(filepath.Base(t.Dir), source)
	if filepath.IsAbs(source) {
		source = filepath.Clean(source)
		below, inside := strings.CutPrefix(source, root+"/")
		if !inside {
			if !in.Plugin.Volumes.Enabled {
				return "", invalid(t, `%q names %q outside of the allocation, which needs "volumes { enabled = true }" in the plugin block of the node's agent`, key, source)
			}
			if _, err := os.Stat(source); errors.Is(err, os.ErrNotExist) && create { // as "docker run -v" does
				if err := os.MkdirAll(source, 0o755); err != nil {
					return "", invalid(t, "%q names %q: %w", key, source, err)
				}
			}
			return source, nil
		}
		rel = below
	}
	if !filepath.IsLocal(rel) {
		return "", invalid(t, "%q names %q, which leaves the directory of the allocation", key, source)
	}
	const how = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS
	path, err := s.bindPath(root, rel, "", how)
	if errors.Is(err, os.ErrNotExist) && create {
		if err = makeDir(root, rel); err == nil {
			path, err = s.bindPath(root, rel, "", how)
		}
	}
	if errors.Is(err, unix.EXDEV) {
		return "", invalid(t, "%q names %q, which leads out of the directory of the allocation by a link", key, source)
	}
	if err != nil {
		return "", invalid(t, "%q names %q: %w", key, source, err)
	}
	return path, nil
}

func makeDir(root, rel string) error {
	r, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer r.Close()
	return r.MkdirAll(rel, 0o777)
}

// profileMax bounds the size of a seccomp profile.
const profileMax = 1 << 20

// setSecurity adds the security options; the engine takes the text of a seccomp profile, and tasks name its file.
func (s *Spec) setSecurity(in Input) error {
	for _, option := range in.Config.SecurityOpt {
		key, value, found := strings.Cut(strings.Replace(option, ":", "=", 1), "=")
		if !found && key != "no-new-privileges" {
			return invalid(in.Task, `"security_opt" has %q: want key=value`, option)
		}
		if key == "seccomp" && !slices.Contains([]string{"unconfined", "builtin"}, value) {
			text, err := s.profile(in, value)
			if err != nil {
				return err
			}
			option = "seccomp=" + text
		}
		s.Options.HostConfig.SecurityOpt = append(s.Options.HostConfig.SecurityOpt, option)
	}
	return nil
}

func (s *Spec) profile(in Input, name string) (string, error) {
	path, err := s.hostPath(in, "security_opt", name, false)
	if err != nil {
		return "", err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", invalid(in.Task, `"security_opt": seccomp profile %q: %w`, name, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, profileMax))
	if err == nil {
		var small bytes.Buffer
		if err = json.Compact(&small, text); err == nil {
			return small.String(), nil
		}
	}
	return "", invalid(in.Task, `"security_opt": seccomp profile %q: %w`, name, err)
}
