package agent

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/open-nomad/open-nomad/client/devices"
	deviceprotocol "github.com/open-nomad/open-nomad/plugins/device/protocol"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/docker"
	"github.com/open-nomad/open-nomad/plugins/driver/exec"
	"github.com/open-nomad/open-nomad/plugins/driver/external"
	"github.com/open-nomad/open-nomad/plugins/driver/external/protocol"
	"github.com/open-nomad/open-nomad/plugins/driver/java"
	"github.com/open-nomad/open-nomad/plugins/driver/limits"
	"github.com/open-nomad/open-nomad/plugins/driver/mock"
	"github.com/open-nomad/open-nomad/plugins/driver/qemu"
	"github.com/open-nomad/open-nomad/plugins/driver/rawexec"
	"github.com/open-nomad/open-nomad/plugins/program"
)

// drivers returns the configuration in the plugin blocks.
type drivers struct {
	rawExec rawexec.Config
	exec    exec.Config
	java    exec.Config
	qemu    qemu.Config
	docker  docker.Config
	mock    bool
	// external are the executables of the plugin directory.
	external []external.Config
	// devices are those of them that are device plugins.
	devices []devices.Plugin
}

// plugins lets each driver read its own plugin block.
func (a *agent) plugins() (to drivers, err error) {
	to.mock = a.cfg.Dev
	if to.docker, err = docker.ParseConfig(nil); err != nil {
		return to, err
	}
	if to.exec, err = exec.ParseConfig(nil); err != nil {
		return to, err
	}
	if to.java, err = java.ParseConfig(nil); err != nil {
		return to, err
	}
	if to.qemu, err = qemu.ParseConfig(nil); err != nil {
		return to, err
	}
	if to.external, to.devices, err = a.externals(); err != nil {
		return to, err
	}
	for name, p := range a.cfg.Plugins {
		switch name {
		case rawexec.Name:
			to.rawExec, err = rawexec.ParseConfig(p.Config)
		case exec.Name:
			to.exec, err = exec.ParseConfig(p.Config)
		case java.Name:
			to.java, err = java.ParseConfig(p.Config)
		case qemu.Name:
			to.qemu, err = qemu.ParseConfig(p.Config)
		case docker.Name:
			to.docker, err = docker.ParseConfig(p.Config)
		case mock.Name:
			var block struct {
				Enabled bool `config:"enabled"`
			}
			err = driver.DecodeConfig(name, p.Config, &block)
			to.mock = to.mock || block.Enabled
		default:
			i := slices.IndexFunc(to.external, func(e external.Config) bool { return filepath.Base(e.Path) == name })
			j := slices.IndexFunc(to.devices, func(d devices.Plugin) bool { return filepath.Base(d.Path) == name })
			switch {
			case i >= 0:
				to.external[i].Args, to.external[i].Config = p.Args, p.Config
			case j >= 0:
				to.devices[j].Args, to.devices[j].Config = p.Args, p.Config
			default:
				a.log.Warn("there is no such plugin; its block is not used", "plugin", name, "plugin_dir", a.pluginDir())
			}
		}
		if err != nil {
			return to, fmt.Errorf("plugin %q: %w", name, err)
		}
	}
	to.exec.ChrootEnv, to.java.ChrootEnv, to.qemu.ChrootEnv = a.cfg.Client.ChrootEnv, a.cfg.Client.ChrootEnv, a.cfg.Client.ChrootEnv
	if err := limits.CheckParent(a.cfg.Client.CgroupParent); err != nil {
		return to, fmt.Errorf("client: %w", err)
	}
	parent := a.cfg.Client.CgroupParent
	to.rawExec.CgroupParent, to.exec.CgroupParent, to.java.CgroupParent, to.qemu.CgroupParent = parent, parent, parent, parent
	if err := exec.CheckChrootEnv(to.exec.ChrootEnv); err != nil {
		return to, fmt.Errorf("client: %w", err)
	}
	return to, nil
}

// programs makes the drivers whose tasks are programs of the node.
func (a *agent) programs(d drivers) []driver.Driver {
	d.java.StateDir, d.qemu.StateDir = filepath.Join(a.dirs.state, java.Name), filepath.Join(a.dirs.state, qemu.Name)
	lease := cmp.Or(d.rawExec.StateDir, filepath.Join(a.dirs.state, rawexec.Name)) // one for all drivers: they see each other's tasks there
	d.java.LeaseDir, d.qemu.LeaseDir = lease, lease
	list := []driver.Driver{java.New(d.java, a.log), qemu.New(d.qemu, a.log)}
	for _, c := range d.external {
		c.StateDir = filepath.Join(a.dirs.state, "plugins", c.Name)
		list = append(list, external.New(c, a.log))
	}
	return list
}

// pluginDir is the directory of the executables of external drivers.
func (a *agent) pluginDir() string {
	return cmp.Or(a.cfg.PluginDir, filepath.Join(a.dirs.data, "plugins"))
}

// externals lists the external drivers and the device plugins of a client.
func (a *agent) externals() (list []external.Config, of []devices.Plugin, err error) {
	if !a.cfg.Client.Enabled {
		return nil, nil, nil
	}
	found, err := program.Find(a.pluginDir(), protocol.Kind, deviceprotocol.Kind)
	if err != nil {
		return nil, nil, fmt.Errorf("plugin_dir: %w", err)
	}
	for _, e := range found {
		if e.Kind == deviceprotocol.Kind {
			of = append(of, devices.Plugin{Name: e.Name, Path: e.Path, StateDir: filepath.Join(a.dirs.state, "device_plugins", e.Name)})
			continue
		}
		if slices.Contains([]string{rawexec.Name, exec.Name, java.Name, qemu.Name, docker.Name, mock.Name}, e.Name) {
			return nil, nil, fmt.Errorf("plugin_dir: %s: %q is a built-in driver: rename the executable", e.Path, e.Name)
		}
		list = append(list, external.Config{Name: e.Name, Path: e.Path})
	}
	return list, of, nil
}
