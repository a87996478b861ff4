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

// One of two whose lease is over waits for something else, and lets go of it when the other one has removed the file, and
// somebody has a new one.
func TestFileOfANewerLeaseStays(t *testing.T) {
	path := t.TempDir() + "/l"
	join := func() *lease {
		l := &lease{path: path, file: -1}
		if f := l.join(); f != nil {
			t.Fatal(f.Text)
		}
		return l
	}
	late, last := join(), join()
	if late.alone() {
		t.Fatal("one of two is alone")
	}
	last.drop()
	newer := join()
	late.drop()
	var st syscall.Stat_t
	if syscall.Fstat(newer.file, &st) != nil || st.Nlink == 0 {
		t.Error("the file of a lease was removed that somebody has")
	}
	newer.drop()
	if syscall.Stat(path, &st) == nil {
		t.Error("the file is left")
	}
}
