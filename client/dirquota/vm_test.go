//go:build vm

package dirquota_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// modules are the parts of the kernel that the virtual machine loads, in order.
var modules = []string{
	"crc32c_generic", "virtio_ring", "virtio", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci", "virtio_blk", "quota_tree", "quota_v2", "libcrc32c", "xfs",
}

const passed = "quota tests: passed"

// TestMain is also the first process of the virtual machine, which runs the tests and ends the machine.
func TestMain(m *testing.M) {
	if os.Getpid() != 1 {
		os.Exit(m.Run())
	}
	defer func() { _ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF) }()
	if err := begin(); err != nil {
		fmt.Println("begin:", err)
		return
	}
	os.Args = []string{"test", "-test.v", "-test.run", "Limited|Counts"}
	if m.Run() == 0 {
		fmt.Println(passed)
	}
	time.Sleep(time.Second) // the console is slow
}

func begin() error {
	for _, dir := range []string{"/proc", "/sys", "/dev", "/tmp", "/q/ext4", "/q/xfs"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	for _, m := range [][3]string{{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}} {
		if err := unix.Mount(m[0], m[1], m[0], 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m[0], err)
		}
	}
	for _, name := range modules {
		f, err := os.Open("/" + name + ".ko")
		if err != nil {
			continue // it is built in
		}
		if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil {
			return fmt.Errorf("load %s: %w", name, err)
		}
	}
	for kind, device := range map[string]string{"ext4": "/dev/vda", "xfs": "/dev/vdb"} {
		var err error
		for range 100 {
			if err = unix.Mount(device, "/q/"+kind, kind, 0, "prjquota"); err == nil {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		if err != nil {
			return fmt.Errorf("mount %s: %w", kind, err)
		}
	}
	return os.Setenv("QUOTA_DIRS", "/q/ext4:/q/xfs")
}

// TestInAVirtualMachine runs the tests of this package on ext4 and xfs, in a virtual machine with the kernel of the directory
// QUOTA_KERNEL, which has boot and lib/modules.
func TestInAVirtualMachine(t *testing.T) {
	kernel := os.Getenv("QUOTA_KERNEL")
	images, err := filepath.Glob(filepath.Join(kernel, "boot", "vmlinuz-*"))
	if err != nil || len(images) != 1 {
		t.Fatalf("QUOTA_KERNEL=%s has %v, want one kernel: run make quotas", kernel, images)
	}
	dir := t.TempDir()
	ext4, xfs, initrd := filepath.Join(dir, "ext4"), filepath.Join(dir, "xfs"), filepath.Join(dir, "initrd")
	for _, c := range [][]string{
		{"truncate", "-s", "400M", ext4, xfs},
		{"mkfs.ext4", "-q", "-O", "project,quota", "-E", "quotatype=prjquota", ext4},
		{"mkfs.xfs", "-q", xfs},
	} {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v %s", c, err, out)
		}
	}
	archive(t, initrd, kernel)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "qemu-system-x86_64", "-m", "512", "-nographic", "-no-reboot", "-kernel", images[0], "-initrd", initrd,
		"-append", "console=ttyS0 panic=-1 quiet", "-drive", "if=virtio,format=raw,file="+ext4, "-drive", "if=virtio,format=raw,file="+xfs).CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte(passed)) {
		t.Errorf("%v\n%s", err, out)
	}
}

// archive writes a cpio archive (newc) with this program as init, and the modules of the kernel.
func archive(t *testing.T, path, kernel string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	files := [][2]string{{"init", self}}
	_ = filepath.Walk(filepath.Join(kernel, "lib", "modules"), func(p string, _ os.FileInfo, _ error) error {
		for _, m := range modules {
			if filepath.Base(p) == m+".ko" {
				files = append(files, [2]string{m + ".ko", p})
			}
		}
		return nil
	})
	var b bytes.Buffer
	entry := func(name string, mode int, data []byte) {
		fmt.Fprintf(&b, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x", b.Len(), mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name)+1, 0)
		b.WriteString(name + "\x00" + strings.Repeat("\x00", -(b.Len()+len(name)+1)&3))
		b.Write(data)
		b.WriteString(strings.Repeat("\x00", -b.Len()&3))
	}
	for _, f := range files {
		data, err := os.ReadFile(f[1])
		if err != nil {
			t.Fatal(err)
		}
		entry(f[0], 0o100755, data)
	}
	entry("TRAILER!!!", 0, nil)
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}
