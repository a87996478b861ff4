package main

import (
	"sync/atomic"
	"syscall"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/bind"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// Endings of the names of this process's files.
const (
	socketEnding = ".sock"
	lockEnding   = ".lock"
	exitEnding   = ".exit"
)

// state is the directory of this process's files, held open: they are found whatever becomes of its path.
type state struct {
	dir  int
	name string

	// look is the time of the next check whether an agent can still come, in nanoseconds of CLOCK_BOOTTIME. signs
	// counts the consecutive checks that deny it; taken counts the checks that were evaluated.
	look    int64
	signs   int
	taken   uint32
	outlook outlook
}

// outlook is the state of the files. A separate goroutine reads it, because the disk may hang.
type outlook struct {
	looking             atomic.Bool
	looks               atomic.Uint32 // those that have ended
	forgotten, vanished atomic.Bool
}

// begin begins a look unless one is under way.
func (o *outlook) begin() {
	if !o.looking.CompareAndSwap(false, true) {
		return
	}
	go func() {
		o.forgotten.Store(forgotten())
		o.vanished.Store(vanished())
		o.looks.Add(1)
		o.looking.Store(false)
	}()
}

// openState opens the present directory.
func openState(path string) (*state, *frame.Failed) {
	dir, err := syscall.Open(".", bind.OPath|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, failed(true, "open the state directory: "+err.Error())
	}
	return &state{dir: dir, name: path[len(dirOf(path))+1:]}, nil
}

func (s *state) rename(from, to string) bool {
	return syscall.Renameat(s.dir, s.name+from, s.dir, s.name+to) == nil
}

func (s *state) remove(ending string) { _ = unlinkat(s.dir, s.name+ending) }

// forgotten reports whether a process has removed the file of the lock.
func forgotten() bool {
	var st syscall.Stat_t
	return syscall.Fstat(lockFD, &st) == nil && st.Nlink == 0
}

const (
	lookEveryNS = 10e9
	lookAgainNS = 1e9
	// lookTakesNS is about how long a look takes.
	lookTakesNS = 20e6
	// signsEnough is how many consecutive checks must deny that an agent can come.
	signsEnough = 2

	tmpfsMagic, ramfsMagic = 0x01021994, 0x858458f6
)

// attended reports whether an agent is connected.
func (s *supervisor) attended() bool {
	for i := range s.agents {
		if s.agents[i].fd >= 0 {
			return true
		}
	}
	return false
}

// abandoned reports whether no agent is here and none can ever come: the files are removed, or went with their file system.
// No process would ever end the task, nor learn of its end.
func (s *supervisor) abandoned() bool {
	st, o := s.state, &s.state.outlook
	looks := o.looks.Load()
	if s.attended() {
		st.look, st.signs, st.taken = 0, 0, looks
		return false
	}
	if now := bootTime(); now >= st.look {
		switch {
		case looks != st.taken && (o.forgotten.Load() || o.vanished.Load()):
			st.look, st.taken = now+lookAgainNS, looks
			st.signs++
		case looks != st.taken:
			st.look, st.signs, st.taken = now+lookEveryNS, 0, looks
		case o.looking.Load():
			st.look = now + lookAgainNS
		default:
			o.begin()
			st.look = now + lookTakesNS
		}
	}
	return st.signs >= signsEnough
}

// isForgotten reports whether a process has removed the file of the lock, as far as that is known. It looks again in the background.
func (s *supervisor) isForgotten() bool {
	s.state.outlook.begin()
	return s.state.outlook.forgotten.Load()
}

// patience bounds a wait while no agent is here, in milliseconds; negative means indefinitely.
func (s *supervisor) patience(waitMS int64) int64 {
	if s.attended() {
		return waitMS
	}
	look := max(s.state.look-bootTime(), 0)/1e6 + 1
	if waitMS < 0 {
		return look
	}
	return min(waitMS, look)
}

// vanished reports whether the file of the lock is on a file system that lives in memory and is mounted nowhere: it never
// will be again. One on a disk may be.
func vanished() bool {
	var fs syscall.Statfs_t
	var st syscall.Stat_t
	if syscall.Fstatfs(lockFD, &fs) != nil || fs.Type != tmpfsMagic && fs.Type != ramfsMagic || syscall.Fstat(lockFD, &st) != nil {
		return false
	}
	table, there := mountTable(), false
	if len(table) == 0 {
		return false
	}
	major := (st.Dev>>8)&0xfff | (st.Dev>>32)&^0xfff
	minor := st.Dev&0xff | (st.Dev>>12)&^0xff
	name := itoa(int64(major)) + ":" + itoa(int64(uint32(minor)))
	eachMount(table, func(_, dev, _, _ string) { there = there || dev == name })
	return !there
}
