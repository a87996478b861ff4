package main

import (
	"syscall"
	"testing"
)

// Who cannot look does not know that nothing is mounted: what is left is cut off.
func TestUnreadableMountTableIsNoProofThatNothingIsMounted(t *testing.T) {
	l := &lease{unmount: []string{"/nowhere"}}
	if l.left() {
		t.Error("something is left that was never mounted")
	}
	var had syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &had); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 0, Max: had.Max}); err != nil {
		t.Fatal(err)
	}
	left := l.left()
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &had); err != nil {
		t.Fatal(err)
	}
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
