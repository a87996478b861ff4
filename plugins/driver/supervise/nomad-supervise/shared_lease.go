package main

import (
	"syscall"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// joinTries and joinPauseMS bound the wait for one who leaves.
const (
	joinTries   = 100
	joinPauseMS = 10
)

// join locks the file of the lease with the others who have it. While one of them takes the volumes away that fails.
func (l *lease) join() *frame.Failed {
	if l.path == "" {
		return nil
	}
	for range joinTries {
		fd, err := syscall.Open(l.path, syscall.O_RDWR|syscall.O_CREAT|syscall.O_CLOEXEC, 0o600)
		if err != nil {
			return failed(true, "open the lock of the lease: "+err.Error())
		}
		var st syscall.Stat_t
		err = syscall.Flock(fd, syscall.LOCK_SH|syscall.LOCK_NB)
		if err == nil && syscall.Fstat(fd, &st) == nil && st.Nlink > 0 {
			l.file = fd
			return nil
		}
		_ = syscall.Close(fd) // the last one has just left, or is leaving
		if err != nil {
			poll([]pollFD{{-1, 0, 0}}, joinPauseMS)
		}
	}
	return failed(true, "its volumes are being unmounted, because their lease has ended")
}

// alone reports whether no other process has the lease, and keeps others from joining then. Among those who ask at once
// exactly one is the last; the others do not have it any more.
func (l *lease) alone() bool {
	return l.file < 0 || syscall.Flock(l.file, syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

// drop releases the lease. The last one removes the file, unless that was done before: then another one may have its name.
func (l *lease) drop() {
	if l.file < 0 {
		return
	}
	var st syscall.Stat_t
	if l.alone() && syscall.Fstat(l.file, &st) == nil && st.Nlink > 0 {
		_ = syscall.Unlink(l.path)
	}
	_ = syscall.Close(l.file)
	l.file = -1
}
