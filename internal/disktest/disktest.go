// Package disktest makes disks for tests that look at what reaches a disk, and when.
package disktest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// T is what a test, or a benchmark, gives.
type T interface {
	Helper()
	TempDir() string
	Cleanup(func())
	Logf(format string, args ...any)
	Skipf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
}

// mkfs are the commands that make a file system which writes nothing by itself later.
var mkfs = map[string][]string{
	"ext4": {"mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0"},
	"xfs":  {"mkfs.xfs", "-q"},
}

// Loop makes a loop device of 6 GiB with a file system, ext4 or xfs, of which much stays in the page cache. It goes with the
// test, which unmounts it before. Where a host has none of this the test is skipped.
func Loop(t T, kind string) (device string) {
	t.Helper()
	image := filepath.Join(t.TempDir(), "image")
	for _, c := range [][]string{{"truncate", "-s", "6G"}, mkfs[kind]} {
		if out, err := exec.Command(c[0], append(c[1:len(c):len(c)], image)...).CombinedOutput(); err != nil {
			t.Skipf("%v: %v %s", c, err, out)
		}
	}
	out, err := exec.Command("losetup", "-f", "--show", "--direct-io=on", image).Output()
	if err != nil {
		t.Skipf("no loop device: %v", err)
	}
	device = strings.TrimSpace(string(out))
	// Allow it more dirty pages than a new device gets. The device remains after it is detached, and the ratios of all
	// devices add up to at most 100.
	share := "/sys/block/" + filepath.Base(device) + "/bdi/min_ratio"
	if err := os.WriteFile(share, []byte("90"), 0); err != nil {
		t.Logf("the device gets no share of the dirty pages: %v", err)
	}
	t.Cleanup(func() {
		_ = os.WriteFile(share, []byte("0"), 0)
		if out, err := exec.Command("losetup", "-d", device).CombinedOutput(); err != nil {
			t.Errorf("losetup -d %s: %v %s", device, err, out)
		}
	})
	return device
}

// Elsewhere attaches the file behind a loop device as another device, as another host does: the page cache of the first
// device is not visible there. XFS has to be mounted with nouuid on the new device.
func Elsewhere(t T, device string) (other string) {
	t.Helper()
	image, err := os.ReadFile("/sys/block/" + filepath.Base(device) + "/loop/backing_file")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("losetup", "-f", "--show", "--direct-io=on", strings.TrimSpace(string(image))).Output()
	if err != nil {
		t.Fatal(err)
	}
	other = strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if out, err := exec.Command("losetup", "-d", other).CombinedOutput(); err != nil {
			t.Errorf("losetup -d %s: %v %s", other, err, out)
		}
	})
	return other
}

// KeptDirty returns how many MiB this host keeps in the page cache before it begins to write them back, less a margin for
// other processes. It skips the test when that is too little for a measurement.
func KeptDirty(t T) int64 {
	t.Helper()
	raw, err := os.ReadFile("/proc/vmstat")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), "nr_dirty_background_threshold ")
	pages, err := strconv.ParseInt(strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	size := min(pages*int64(os.Getpagesize())>>20*2/5, 1500)
	if size < 200 {
		t.Skipf("this host keeps only %d MiB dirty", size)
	}
	return size
}

// Written is how many bytes a block device of this host was written since the start of the host.
func Written(device string) (int64, error) {
	const sectorsWritten, sector = 6, 512 // Documentation/block/stat.rst of the kernel
	raw, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(device), "stat"))
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.Fields(string(raw))[sectorsWritten], 10, 64)
	return n * sector, err
}
