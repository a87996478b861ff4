package main

import (
	"syscall"
	"testing"
)

// Of those who have a lease together the last one is alone, however they leave, and nobody joins while it takes the volumes
// away.
func TestLastOneOfALeaseIsAlone(t *testing.T) {
	path := t.TempDir() + "/a.lease"
	join := func() *lease {
		l := &lease{path: path, file: -1}
		if f := l.join(); f != nil {
			t.Fatal(f.Text)
		}
		return l
	}
	one, two, three := join(), join(), join()
	one.drop()
	if two.alone() {
		t.Error("two is alone beside three")
	}
	if !three.alone() { // two has asked, and so given up
		t.Error("three is not alone")
	}
	late := &lease{path: path, file: -1}
	if f := late.join(); f == nil || !f.Again {
		t.Errorf("somebody joined: %+v", f)
	}
	three.drop()
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != syscall.ENOENT {
		t.Errorf("the file is left: %v", err)
	}
	if next := join(); !next.alone() {
		t.Error("the next one is not alone")
	}
}
