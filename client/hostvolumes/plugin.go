package hostvolumes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/dirquota"
)

// made is what a plugin made.
type made struct {
	path string
	// bytes is 0 when nothing limits the size.
	bytes int64
}

// plugin makes and deletes the directories of volumes.
type plugin interface {
	// create makes the volume, or finds the one that exists. fresh is set unless the node has had it before.
	create(ctx context.Context, v *api.HostVolume, fresh bool) (made, error)
	// remove deletes the volume; one that does not exist is no error.
	remove(ctx context.Context, v *api.HostVolume) error
}

// builtinVersion is the version of the built-in plugins.
const builtinVersion = "0.0.1"

// dirMode lets tasks of all users reach the volumes, and lists nothing.
const dirMode = 0o711

// prepare makes the directory of all volumes.
func prepare(dir string) error {
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return fault.New(fault.Internal, "make the directory of host volumes: %w", err)
	}
	return nil
}

// mkdir is the built-in plugin that makes directories.
type mkdir struct{ dir string }

func (p mkdir) create(_ context.Context, v *api.HostVolume, fresh bool) (made, error) {
	o, err := parameters(v, "mode", "uid", "gid")
	if err != nil {
		return made{}, err
	}
	path := filepath.Join(p.dir, v.ID)
	if err := prepare(p.dir); err != nil {
		return made{}, err
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return made{}, fault.New(fault.Internal, "make the directory: %w", err)
	}
	if err := isDirectory(path); err != nil {
		return made{}, err
	}
	if fresh {
		err = o.apply(path)
	}
	return made{path: path}, err
}

func (p mkdir) remove(_ context.Context, v *api.HostVolume) error {
	path := filepath.Join(p.dir, v.ID)
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(path))
	if err != nil {
		return fault.New(fault.Internal, "look for mounts in the directory: %w", err)
	}
	if len(mounts) > 0 { // what is mounted there is not the volume's to delete
		return fault.New(fault.Conflict, "%s is a mount: unmount it on the node, then delete the volume again", mounts[0].Mountpoint)
	}
	return os.RemoveAll(path)
}

// isDirectory refuses files and links in the place of a volume.
func isDirectory(path string) error {
	st, err := os.Lstat(path)
	if err != nil {
		return fault.New(fault.Internal, "look at the directory of the volume: %w", err)
	}
	if !st.IsDir() {
		return fault.New(fault.Conflict, "%s is not a directory but %s: remove it", path, st.Mode().Type())
	}
	return nil
}

// owner is whose a new directory is, and who may use it.
type owner struct {
	mode     fs.FileMode
	uid, gid int
	// method is how the size is limited; empty means that the node chooses.
	method string
}

// methods are the values of the parameter method.
var methods = []string{string(dirquota.Project), string(dirquota.Btrfs), loop}

// parameters reads the parameters of a built-in plugin. Those that are not known are errors.
func parameters(v *api.HostVolume, known ...string) (owner, error) {
	o := owner{mode: 0o700, uid: -1, gid: -1}
	for key, value := range v.Parameters {
		if !slices.Contains(known, key) {
			return o, fault.New(fault.Invalid, "plugin %s has no parameter %q: use %s", v.PluginID, key, strings.Join(known, ", "))
		}
		switch key {
		case "method":
			if !slices.Contains(methods, value) {
				return o, fault.New(fault.Invalid, "parameter method: %.60q is not one of %s", value, strings.Join(methods, ", "))
			}
			o.method = value
		case "mode":
			n, err := strconv.ParseUint(value, 8, 32)
			if err != nil || n > 0o1777 {
				return o, fault.New(fault.Invalid, "parameter mode: %q is not an octal mode such as 0755", value)
			}
			o.mode = fs.FileMode(n & 0o777)
			if n&0o1000 != 0 {
				o.mode |= fs.ModeSticky
			}
		default:
			n, err := strconv.ParseInt(value, 10, 32)
			if err != nil || n < 0 {
				return o, fault.New(fault.Invalid, "parameter %s: %q is not a numeric id", key, value)
			}
			if key == "uid" {
				o.uid = int(n)
			} else {
				o.gid = int(n)
			}
		}
	}
	return o, nil
}

func (o owner) apply(path string) error {
	if err := os.Chmod(path, o.mode); err != nil {
		return fault.New(fault.Internal, "set the mode of the directory: %w", err)
	}
	if o.uid >= 0 || o.gid >= 0 {
		if err := os.Lchown(path, o.uid, o.gid); err != nil {
			return fault.New(fault.Internal, "set the owner of the directory: %w", err)
		}
	}
	return nil
}

// plugin finds the plugin of a volume.
func (s *Service) plugin(v *api.HostVolume) (plugin, error) {
	switch v.PluginID {
	case "mkdir":
		return mkdir{s.conf.Dir}, nil
	case "quota":
		return quota{s.conf.Dir}, nil
	}
	if !name.MatchString(v.PluginID) {
		return nil, fault.New(fault.Invalid, "%q is no name of a host volume plugin", v.PluginID)
	}
	return external{s.conf, v.PluginID}, nil
}

// checked is what a plugin made if it can be used.
func (m made) checked(v *api.HostVolume) error {
	if !filepath.IsAbs(m.path) {
		return fault.New(fault.Invalid, "plugin %s returned the path %.120q, which is not absolute", v.PluginID, m.path)
	}
	st, err := os.Stat(m.path)
	switch {
	case err != nil:
		return fmt.Errorf("plugin %s: look at what it made: %w", v.PluginID, err)
	case !st.IsDir():
		return fault.New(fault.Invalid, "plugin %s made %s, which is not a directory", v.PluginID, m.path)
	case m.bytes > 0 && m.bytes < v.RequestedCapacityMinBytes:
		return fault.New(fault.Invalid, "plugin %s made a volume of %d bytes, at least %d are requested", v.PluginID, m.bytes, v.RequestedCapacityMinBytes)
	}
	return nil
}
