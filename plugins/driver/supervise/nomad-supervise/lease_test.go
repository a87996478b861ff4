package main

import (
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/bind"
)

// Who cannot look does not know that nothing is mounted: what is left is cut off.
func TestUnreadableMountTableIsNoProofThatNothingIsMounted(t *testing.T) {
	l := &lease{unmount: []string{"/nowhere"}}
	if l.left() {
		t.Error("something is left that was never mounted")
	}
	left := false
	blind(t, func() { left = l.left() })
	if !left {
		t.Error("nothing is left, as far as nobody can see")
	}
}

// Each renewal tells when the servers were heard; a gap as long as the lease ends it whatever comes after.
func TestRenewalsWithoutAGapKeepTheLease(t *testing.T) {
	now := bootTime()
	for name, c := range map[string]struct {
		heard []int64
		over  bool
	}{
		"never again": {nil, true},
		"each time":   {[]int64{90, 180, 270, 360, 450, 540, 630, 720, 810, 900}, false},
		"a gap":       {[]int64{90, 180, 280, 370, 460, 550, 640, 730, 820, 910}, true},
		"old ones":    {[]int64{90, 180, 90, 0, 270, 360, 450, 540, 630, 720, 810, 900}, false},
	} {
		l := lease{from: now - 990e9, stop: 100e9, cut: 110e9, end: 120e9, timer: -1}
		begin := l.from
		for _, s := range c.heard {
			l.renew(begin + s*1e9)
		}
		if l.over() != c.over {
			t.Errorf("%s: over is %v", name, l.over())
		}
	}
}

// blind lets nothing be opened.
func blind(t *testing.T, do func()) {
	t.Helper()
	var had syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &had); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 0, Max: had.Max}); err != nil {
		t.Fatal(err)
	}
	do()
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &had); err != nil {
		t.Fatal(err)
	}
}

// Two writers are worse than a file system that others lose as well; only the host's own is spared.
func TestVolumeIsShutDownThoughTheMountTableCannotBeRead(t *testing.T) {
	if syscall.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir, own := t.TempDir(), t.TempDir()
	volume, bind := dir+"/volume", dir+"/bind"
	for _, p := range []string{volume, bind} {
		if err := syscall.Mkdir(p, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mount("tmpfs", volume, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("no tmpfs here: %v", err)
	}
	defer syscall.Unmount(volume, syscall.MNT_DETACH)
	if err := syscall.Mount(own, bind, "", syscall.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	defer syscall.Unmount(bind, syscall.MNT_DETACH)
	l := &lease{from: bootTime(), stop: 1e6, cut: 2e6, end: 300e6, unmount: []string{volume, bind}}
	for path, want := range map[string]bool{volume: true, bind: false} {
		if got := l.owns(path); got != want {
			t.Errorf("%s with a table: %v", path, got)
		}
		got := !want
		blind(t, func() { got = l.owns(path) })
		if got != want {
			t.Errorf("%s without a table: %v", path, got)
		}
	}
}

// looked looks at the mounts and waits for the end of that.
func (l *lease) looked() {
	for l.look(); l.seen.looking.Load(); {
		time.Sleep(time.Millisecond)
	}
}

// Waits for file systems, and for others who use a mount, may be long: what is mounted at its path then is of a user with
// a lease of its own.
func TestOnlyMountsOfTheLeaseAreTakenAway(t *testing.T) {
	if syscall.Geteuid() != 0 {
		t.Skip("needs root")
	}
	for name, take := range map[string]func(*lease, string){
		"unmounted": func(l *lease, _ string) { l.unmountAll("") }, "cut off": (*lease).cutMount,
	} {
		for mount, c := range map[string]struct{ newer, renewed bool }{
			"its own": {}, "another one": {newer: true}, "another one that was there at the last renewal": {true, true},
		} {
			t.Run(name+" "+mount, func(t *testing.T) {
				path := t.TempDir()
				tmpfs := func() {
					if err := syscall.Mount("tmpfs", path, "tmpfs", 0, "size=64k"); err != nil {
						t.Skipf("no tmpfs here: %v", err)
					}
				}
				tmpfs()
				defer func() { _ = syscall.Unmount(path, syscall.MNT_DETACH) }()
				l := &lease{from: bootTime(), stop: 60e9, cut: 70e9, end: 80e9, unmount: []string{path}, timer: -1}
				if l.looked(); !l.was(path).root {
					t.Fatalf("its mount is not known: %+v", l.was(path))
				}
				if c.newer {
					if !l.was(path).unique {
						t.Skip("this kernel numbers mounts anew")
					}
					if err := syscall.Unmount(path, 0); err != nil {
						t.Fatal(err)
					}
					tmpfs()
				}
				if c.renewed {
					l.renew(l.from + 1)
					l.looked()
				}
				want := c.newer && !c.renewed
				if got := l.left(); !got && !want {
					t.Error("nothing is left before")
				}
				take(l, path)
				if got := numberAt(bind.AtCwd, path, statxMount).root; got != want {
					t.Errorf("it is mounted: %v", got)
				}
				if !want && l.left() {
					t.Error("something is left")
				}
			})
		}
	}
}

// The mount is replaced while its file system is waited for.
func TestMountThatComesWhileAHungOneIsCutOffStays(t *testing.T) {
	if syscall.Geteuid() != 0 {
		t.Skip("needs root")
	}
	path := t.TempDir()
	defer func() { _ = syscall.Unmount(path, syscall.MNT_DETACH) }()
	hung, err := syscall.Open("/dev/fuse", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("no fuse here: %v", err)
	}
	defer syscall.Close(hung)
	if err := syscall.Mount("hung", path, "fuse", 0, "fd="+itoa(int64(hung))+",rootmode=40000,user_id=0,group_id=0"); err != nil {
		t.Skipf("cannot mount fuse here: %v", err)
	}
	l := &lease{from: bootTime(), stop: 1e6, cut: 2e6, end: 1e9, unmount: []string{path}, timer: -1}
	l.looked()
	ended := make(chan struct{})
	go func() { defer close(ended); l.cutMount(path) }()
	var b [1 << 17]byte
	for asked := 0; asked < 2; asked++ { // the first message opens the connection, the second comes from the shutdown
		fds := []pollFD{{int32(hung), pollIn, 0}}
		if poll(fds, 30_000); fds[0].revents == 0 {
			t.Fatal("the file system is not asked for anything")
		}
		if _, err := syscall.Read(hung, b[:]); err != nil {
			t.Fatal(err)
		}
		if asked == 0 {
			reply := [80]byte{0: 80, 16: 7, 20: 31}
			copy(reply[8:16], b[8:16])
			if _, err := syscall.Write(hung, reply[:]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := syscall.Unmount(path, syscall.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", path, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	<-ended
	if !numberAt(bind.AtCwd, path, statxMount).root {
		t.Error("the mount that came meanwhile was taken away")
	}
}
