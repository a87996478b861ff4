package mounts_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

func root(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
}

// pair makes a source with a file and an empty target, and cleans the target up.
func pair(t *testing.T) (source, target string) {
	t.Helper()
	root(t)
	dir := t.TempDir()
	source, target = filepath.Join(dir, "a b"), filepath.Join(dir, "t")
	for _, d := range []string{source, target} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(source, "f"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := mounts.Unmount(target); err != nil {
			t.Error(err)
		}
	})
	return source, target
}

func TestBindShowsAndRestricts(t *testing.T) {
	source, target := pair(t)
	if err := mounts.Bind(source, target, mounts.Flags{ReadOnly: true, NoSuid: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(target, "f")); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(target, "g"), nil, 0o644); err == nil {
		t.Error("wrote through a read-only bind")
	}
	at, err := mounts.At(target)
	if err != nil || at == nil || !at.ReadOnly {
		t.Fatalf("entry %+v: %v", at, err)
	}
	want, err := mounts.Of(source)
	if err != nil || !at.Same(want) {
		t.Errorf("entry %+v, want %+v: %v", at, want, err)
	}
}

func TestUnmountRemovesStacks(t *testing.T) {
	source, target := pair(t)
	for range 3 {
		if err := mounts.Bind(source, target, mounts.Flags{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := mounts.Unmount(target); err != nil {
		t.Fatal(err)
	}
	if on, err := mounts.IsPoint(target); on || err != nil {
		t.Errorf("still mounted: %v, %v", on, err)
	}
}

// TestUnmountLeavesWhatComesMeanwhile: the kernel may be long over an unmount, and somebody mounts at the path then.
func TestUnmountLeavesWhatComesMeanwhile(t *testing.T) {
	for name, err := range map[string]error{"unmounted": nil, "busy": unix.EBUSY} {
		for _, table := range []bool{false, true} {
			t.Run(name+" "+strconv.FormatBool(table), func(t *testing.T) {
				source, target := pair(t)
				for range 2 {
					if err := mounts.Bind(source, target, mounts.Flags{}); err != nil {
						t.Fatal(err)
					}
				}
				before, known := mounts.UniqueStack(target)
				if known != nil && !table {
					t.Skip("this kernel numbers mounts anew: ", known)
				}
				if table {
					if before, known = mounts.TableStack(target); known != nil {
						t.Fatal(known)
					}
				}
				calls, made := 0, 0
				got := mounts.UnmountBy(before, target, func(path string) error {
					if calls++; err == nil {
						if err := unix.Unmount(path, 0); err != nil {
							t.Fatal(err)
						}
					}
					if calls == 2 || err != nil {
						made++
						if err := unix.Mount("newer", path, "tmpfs", 0, ""); err != nil {
							t.Fatal(err)
						}
					}
					return err
				})
				if e, _ := mounts.At(target); got == nil || made != 1 || e == nil || e.FSType != "tmpfs" {
					t.Errorf("%v after %d calls; at the path is %+v", got, calls, e)
				}
			})
		}
	}
}

func TestUnmountIsNeverLazy(t *testing.T) {
	source, target := pair(t)
	if err := mounts.Bind(source, target, mounts.Flags{}); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(target, "f"))
	if err != nil {
		t.Fatal(err)
	}
	if err := mounts.Unmount(target); err == nil {
		t.Error("a busy mount was unmounted")
	}
	f.Close()
}

func TestPlainAndMissingPathsAreNoMounts(t *testing.T) {
	dir := t.TempDir()
	for _, p := range []string{dir, filepath.Join(dir, "missing"), filepath.Join(dir, "missing", "deeper")} {
		if on, err := mounts.IsPoint(p); on || err != nil {
			t.Errorf("%s: %v, %v", p, on, err)
		}
		if e, err := mounts.At(p); e != nil || err != nil {
			t.Errorf("%s: %+v, %v", p, e, err)
		}
		if err := mounts.Unmount(p); err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
}

func TestShareIsDoneOnce(t *testing.T) {
	_, target := pair(t)
	for range 2 {
		if err := mounts.Share(target); err != nil {
			t.Fatal(err)
		}
	}
	below, err := mounts.Below(target)
	if err != nil || len(below) > 1 {
		t.Errorf("%d mounts: %v", len(below), err)
	}
	if e, err := mounts.Of(filepath.Join(target, "x")); err != nil || !e.Shared {
		t.Errorf("entry %+v: %v", e, err)
	}
}

// A FUSE file system whose server is dead answers ENOTCONN to stat; it must still be seen and removed.
func TestDeadMountIsSeenAndRemoved(t *testing.T) {
	_, target := pair(t)
	fuse, err := unix.Open("/dev/fuse", unix.O_RDWR, 0)
	if err != nil {
		t.Skipf("no fuse here: %v", err)
	}
	opts := "fd=" + strconv.Itoa(fuse) + ",rootmode=40000,user_id=0,group_id=0"
	if err := unix.Mount("fake", target, "fuse", 0, opts); err != nil {
		unix.Close(fuse)
		t.Skipf("cannot mount fuse here: %v", err)
	}
	unix.Close(fuse)
	if _, err := os.Stat(target); err == nil {
		t.Error("the mount is not dead")
	}
	if on, err := mounts.IsPoint(target); !on || err != nil {
		t.Errorf("a dead mount is not seen: %v, %v", on, err)
	}
	if err := mounts.Unmount(target); err != nil {
		t.Error(err)
	}
}

func TestRestrictAddsToWhatAMountHas(t *testing.T) {
	source, target := pair(t)
	if err := mounts.Bind(source, target, mounts.Flags{NoSuid: true}); err != nil {
		t.Fatal(err)
	}
	if err := mounts.Restrict(target, mounts.Flags{NoExec: true, ReadOnly: true}); err != nil {
		t.Fatal(err)
	}
	at, err := mounts.At(target)
	if want := (mounts.Flags{NoSuid: true, NoExec: true, ReadOnly: true}); err != nil || at.Flags != want {
		t.Errorf("the mount has %s, not %s: %v", at.Flags, want, err)
	}
	if err := os.WriteFile(filepath.Join(target, "g"), nil, 0o644); err == nil {
		t.Error("wrote to it")
	}
	if err := os.WriteFile(filepath.Join(source, "g"), nil, 0o644); err != nil {
		t.Errorf("the source is restricted too: %v", err)
	}
	if err := mounts.Restrict(source, mounts.Flags{ReadOnly: true}); err == nil {
		t.Error("restricted what is no mount")
	}
}

func TestDetachTakesABusyMountAway(t *testing.T) {
	source, target := pair(t)
	if err := mounts.Bind(source, target, mounts.Flags{}); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(target, "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	seen, err := mounts.At(target)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // again when nothing is there
		if err := mounts.Detach(seen); err != nil {
			t.Fatal(err)
		}
	}
	if on, err := mounts.IsPoint(target); on || err != nil {
		t.Errorf("still mounted: %v, %v", on, err)
	}
}

func TestFlagsOfOptions(t *testing.T) {
	got := mounts.FlagsOf([]string{"ro", "noatime", "nodev", "rw", "noexec"})
	if want := (mounts.Flags{NoDev: true, NoExec: true}); got != want || got.String() != "nodev,noexec" {
		t.Errorf("%s, not %s", got, want)
	}
	if left := got.Without(mounts.Flags{NoDev: true}); left != (mounts.Flags{NoExec: true}) {
		t.Errorf("without nodev: %s", left)
	}
}

// Who waits, and then takes away what is at a path, may find the mount of somebody else there.
func TestOnlyTheMountThatWasSeenIsTakenAway(t *testing.T) {
	for name, act := range map[string]func(*mounts.Entry) error{
		"removed": mounts.Remove, "detached": mounts.Detach, "aborted": mounts.Abort, "written back": mounts.System{}.Sync, "shut down": mounts.System{}.ShutDown,
	} {
		for _, numbered := range []bool{true, false} {
			for place, covered := range map[string]bool{"in its place": false, "over it": true} {
				t.Run(fmt.Sprintf("%s %s, unique number %v", name, place, numbered), func(t *testing.T) {
					source, target := pair(t)
					if err := mounts.Bind(source, target, mounts.Flags{}); err != nil {
						t.Fatal(err)
					}
					seen, err := mounts.At(target)
					if err != nil || seen == nil {
						t.Fatal(seen, err)
					}
					if !numbered {
						seen.Unique = 0
					} else if seen.Unique == 0 {
						t.Skip("this kernel numbers mounts anew")
					}
					if !covered {
						if err := mounts.Unmount(target); err != nil {
							t.Fatal(err)
						}
					}
					if err := unix.Mount("newer", target, "tmpfs", 0, ""); err != nil {
						t.Fatal(err)
					}
					if err := act(seen); err == nil && covered {
						t.Error("it was done")
					}
					if e, err := mounts.At(target); err != nil || e == nil || e.FSType != "tmpfs" {
						t.Errorf("at the path is %+v: %v", e, err)
					}
				})
			}
		}
	}
}

func TestMountThatWasSeenIsTakenAwayThoughItCoversAnother(t *testing.T) {
	for _, act := range []func(*mounts.Entry) error{mounts.Remove, mounts.Detach} {
		source, target := pair(t)
		for range 2 {
			if err := mounts.Bind(source, target, mounts.Flags{}); err != nil {
				t.Fatal(err)
			}
		}
		table, err := mounts.Table()
		if err != nil {
			t.Fatal(err)
		}
		first, err := mounts.At(target)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time it is gone
			if err := act(first); err != nil {
				t.Fatal(err)
			}
			if left, err := mounts.At(target); err != nil || left == nil || !left.Before(first, table) {
				t.Errorf("at the path is %+v: %v", left, err)
			}
		}
	}
}
