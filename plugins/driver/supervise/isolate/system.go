package isolate

import (
	"syscall"
	"unsafe"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/bind"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// Numbers of system calls, the same on every architecture.
const (
	sysFsopen   = 430
	sysFsconfig = 431
	sysFsmount  = 432

	setString = 1
	create    = 6
)

// hidden are files and directories of /proc that show something of the host, sealed those that would change it.
var (
	hidden = [...]string{
		"acpi", "asound", "interrupts", "kcore", "keys", "latency_stats", "sched_debug", "scsi", "timer_list", "timer_stats",
	}
	sealed = [...]string{"bus", "fs", "irq", "sys", "sysrq-trigger"}
)

// devices are those of /dev: name, major and minor number.
var devices = [...]struct {
	name         string
	major, minor int
}{{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}}

var links = [...][2]string{
	{"fd", "/proc/self/fd"},
	{"stdin", "/proc/self/fd/0"},
	{"stdout", "/proc/self/fd/1"},
	{"stderr", "/proc/self/fd/2"},
	{"ptmx", "pts/ptmx"},
}

// makeSystem makes /dev, /proc, /sys and /tmp, and returns the mount of /dev, to which something may be added.
func makeSystem(spec *frame.Spec) (dev int, f *frame.Failed) {
	dev, f = mount(spec.TaskDir, "/dev", "tmpfs", bind.NoSuid|bind.NoExec, "mode", "755", "size", "64k")
	if f != nil {
		return -1, f
	}
	for _, d := range devices {
		if err := mknodat(dev, d.name, syscall.S_IFCHR|0o666, d.major<<8|d.minor); err != nil {
			return -1, failed(false, "make /dev/"+d.name+": "+err.Error())
		}
	}
	for _, l := range links {
		if err := symlinkat(l[1], dev, l[0]); err != nil {
			return -1, failed(false, "make /dev/"+l[0]+": "+err.Error())
		}
	}
	if _, f = mount(spec.TaskDir, "/dev/pts", "devpts", bind.NoSuid|bind.NoExec, "mode", "620", "gid", "5", "ptmxmode", "666"); f != nil {
		return -1, f
	}
	if f = sharedMemory(spec); f != nil {
		return -1, f
	}
	proc, f := mount(spec.TaskDir, "/proc", "proc", bind.NoSuid|bind.NoDev|bind.NoExec)
	if f != nil {
		return -1, f
	}
	// A new one has none of what the host mounts below its /sys.
	if _, f = mount(spec.TaskDir, "/sys", "sysfs", bind.ReadOnly|bind.NoSuid|bind.NoDev|bind.NoExec); f != nil {
		return -1, f
	}
	if err := guard(proc, dev); err != nil {
		return -1, failed(false, "guard /proc: "+err.Error())
	}
	tmp, f := bind.Beneath(spec.TaskDir, spec.TaskDir+"/tmp", true)
	if f != nil {
		return -1, f
	}
	defer syscall.Close(tmp)
	if err := syscall.Chmod("/proc/self/fd/"+itoa(tmp), 0o1777); err != nil {
		return -1, failed(true, "make /tmp: "+err.Error())
	}
	return dev, nil
}

// sharedMemory makes /dev/shm; it is the host's when the task shares its memory with processes of the host.
func sharedMemory(spec *frame.Spec) *frame.Failed {
	if spec.Isolation.IPC {
		_, f := mount(spec.TaskDir, "/dev/shm", "tmpfs", bind.NoSuid|bind.NoDev|bind.NoExec, "mode", "1777", "size", "64m")
		return f
	}
	p := place{what: "mount /dev/shm", at: "/dev/shm", attributes: bind.NoSuid | bind.NoDev | bind.NoExec}
	if f := p.source.Open(&frame.Mount{Source: "/dev/shm"}); f != nil {
		return f
	}
	return p.show(spec.TaskDir)
}

// mount makes a file system and shows it below root.
func mount(root, at, kind string, attributes uintptr, options ...string) (int, *frame.Failed) {
	fd, err := makeMount(kind, attributes, options)
	if err != nil {
		return -1, failed(false, "make "+at+": "+err.Error())
	}
	target, f := bind.Beneath(root, root+at, true)
	if f != nil {
		return -1, about("make "+at, f)
	}
	err = bind.Attach(fd, target)
	_ = syscall.Close(target)
	if err != nil {
		return -1, failed(false, "make "+at+": "+err.Error())
	}
	return fd, nil
}

// makeMount makes a file system that is in no namespace yet.
func makeMount(kind string, attributes uintptr, options []string) (int, error) {
	name := terminated(kind)
	fs, _, e := syscall.Syscall(sysFsopen, uintptr(unsafe.Pointer(name)), 1 /* FSOPEN_CLOEXEC */, 0)
	if e != 0 {
		return -1, e
	}
	defer syscall.Close(int(fs))
	for i := 0; i+1 < len(options); i += 2 {
		key, value := terminated(options[i]), terminated(options[i+1])
		if _, _, e := syscall.Syscall6(sysFsconfig, fs, setString, uintptr(unsafe.Pointer(key)), uintptr(unsafe.Pointer(value)), 0, 0); e != 0 {
			return -1, e
		}
	}
	if _, _, e := syscall.Syscall6(sysFsconfig, fs, create, 0, 0, 0, 0); e != 0 {
		return -1, e
	}
	fd, _, e := syscall.Syscall(sysFsmount, fs, 1 /* FSMOUNT_CLOEXEC */, attributes)
	if e != 0 {
		return -1, e
	}
	return int(fd), nil
}

// guard covers what a task must not see of /proc, and makes read-only what it must not change.
func guard(proc, dev int) error {
	for _, name := range sealed {
		if err := cover(proc, name, func(bool) (int, error) {
			fd, err := bind.Clone(proc, name)
			if err == nil {
				err = bind.SetAttributes(fd, bind.ReadOnly)
			}
			return fd, err
		}); err != nil {
			return err
		}
	}
	for _, name := range hidden {
		if err := cover(proc, name, func(dir bool) (int, error) {
			if dir {
				return makeMount("tmpfs", bind.ReadOnly|bind.NoSuid|bind.NoDev|bind.NoExec, nil)
			}
			return bind.Clone(dev, "null")
		}); err != nil {
			return err
		}
	}
	return nil
}

// cover shows a mount over a file of a directory, if there is such a file.
func cover(dir int, name string, with func(dir bool) (int, error)) error {
	target, err := syscall.Openat(dir, name, bind.OPath|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
	if err == syscall.ENOENT {
		return nil
	}
	if err != nil {
		return err
	}
	defer syscall.Close(target)
	var st syscall.Stat_t
	if err := syscall.Fstat(target, &st); err != nil {
		return err
	}
	fd, err := with(st.Mode&syscall.S_IFMT == syscall.S_IFDIR)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	return bind.Attach(fd, target)
}

func mknodat(dir int, name string, mode uint32, device int) error {
	if _, _, e := syscall.Syscall6(syscall.SYS_MKNODAT, uintptr(dir), uintptr(unsafe.Pointer(terminated(name))), uintptr(mode), uintptr(device), 0, 0); e != 0 {
		return e
	}
	return nil
}

func symlinkat(to string, dir int, name string) error {
	if _, _, e := syscall.Syscall(syscall.SYS_SYMLINKAT, uintptr(unsafe.Pointer(terminated(to))), uintptr(dir), uintptr(unsafe.Pointer(terminated(name)))); e != 0 {
		return e
	}
	return nil
}

// terminated is a constant text as the kernel takes it.
func terminated(text string) *byte {
	b := append([]byte(text), 0)
	return (*byte)(unsafe.Pointer(&b[0]))
}
