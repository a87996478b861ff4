package isolate

import (
	"syscall"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/bind"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// place is something of the host, opened, and where the task sees it.
type place struct {
	what       string
	at         string
	source     bind.Source
	attributes uint64
}

// makeRoot makes the root directory of the task from its directory, and leaves the one of the host.
func makeRoot(spec *frame.Spec) *frame.Failed {
	if err := syscall.Mount("", "/", "", syscall.MS_SLAVE|syscall.MS_REC, ""); err != nil {
		return failed(false, "detach the mount namespace: "+err.Error())
	}
	if spec.Hostname != "" {
		if err := syscall.Sethostname([]byte(spec.Hostname)); err != nil {
			return failed(false, "set the host name "+spec.Hostname+": "+err.Error())
		}
	}
	places, f := open(spec)
	if f != nil {
		return f
	}
	base := frame.Mount{Source: spec.TaskDir}
	var source bind.Source
	if f := source.Open(&base); f != nil {
		return about("the task directory", f)
	}
	target, err := syscall.Open(spec.TaskDir, bind.OPath|syscall.O_DIRECTORY|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
	if err == nil {
		err = source.Bind(target, bind.NoSuid|bind.NoDev)
		_ = syscall.Close(target)
	}
	if err != nil {
		return failed(true, "make "+spec.TaskDir+" the root directory: "+err.Error())
	}
	syscall.Umask(0)
	dev, f := makeSystem(spec)
	if f != nil {
		return f
	}
	for i := range places {
		if f := places[i].show(spec.TaskDir); f != nil {
			return f
		}
	}
	if err := bind.Seal(dev); err != nil {
		return failed(false, "seal /dev: "+err.Error())
	}
	syscall.Umask(0o022)
	return leaveHost(spec.TaskDir)
}

// open opens all that the task sees of the host, before something of it is covered.
func open(spec *frame.Spec) ([]place, *frame.Failed) {
	var places []place
	add := func(m frame.Mount, attributes uint64) *frame.Failed {
		p := place{what: "mount " + m.Source + " at " + m.Destination, at: m.Destination, attributes: attributes}
		if f := p.source.Open(&m); f != nil {
			return about(p.what, f)
		}
		if p.source.Device {
			p.attributes &^= bind.NoDev
		}
		places = append(places, p)
		return nil
	}
	for _, m := range spec.Isolation.Root {
		var st syscall.Stat_t
		if err := syscall.Stat(m.Source, &st); err == syscall.ENOENT || err == syscall.ENOTDIR {
			continue
		}
		if f := add(m, bind.ReadOnly|bind.NoSuid|bind.NoDev); f != nil {
			return nil, f
		}
	}
	if spec.AllocDir != "" {
		if f := add(frame.Mount{Source: spec.AllocDir, Destination: "/alloc"}, bind.NoSuid|bind.NoDev); f != nil {
			return nil, f
		}
	}
	for _, m := range spec.Mounts {
		attributes := uint64(bind.NoSuid | bind.NoDev)
		if m.ReadOnly {
			attributes |= bind.ReadOnly
		}
		if at := m.Destination; at == "/proc" || len(at) > 6 && at[:6] == "/proc/" || at == "/dev" || at == "/sys" {
			return nil, failed(false, "mount "+m.Source+" at "+at+": nothing can be mounted over /proc, /sys and /dev")
		}
		if f := add(m, attributes); f != nil {
			return nil, f
		}
	}
	return places, nil
}

func (p *place) show(root string) *frame.Failed {
	target, f := bind.Beneath(root, root+p.at, p.source.Dir)
	if f != nil {
		return about(p.what, f)
	}
	err := p.source.Bind(target, p.attributes)
	_ = syscall.Close(target)
	if err != nil {
		return failed(true, p.what+": "+err.Error())
	}
	return nil
}

func about(what string, f *frame.Failed) *frame.Failed {
	f.Text = what + ": " + f.Text
	return f
}

// leaveHost makes a directory, which is a mount, the root directory of the namespace.
func leaveHost(root string) *frame.Failed {
	old, err := syscall.Open("/", bind.OPath|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return failed(true, "open the root directory of the host: "+err.Error())
	}
	for _, step := range []func() error{
		func() error { return syscall.Chdir(root) },
		func() error { return syscall.PivotRoot(".", ".") },
		func() error { return syscall.Fchdir(old) },
		func() error { return syscall.Unmount(".", syscall.MNT_DETACH) },
		func() error { return syscall.Chdir("/") },
		func() error { return syscall.Close(old) },
	} {
		if err := step(); err != nil {
			return failed(false, "leave the root directory of the host (it must be a mount other than the initial one): "+err.Error())
		}
	}
	return nil
}
