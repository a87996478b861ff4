package main

import (
	"syscall"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise/isolate"
)

const prSetChildSubreaper = 36

func failed(again bool, text string) *frame.Failed { return &frame.Failed{Again: again, Text: text} }

// start starts the task; when it returns a failure the task does not run.
func (s *supervisor) start() *frame.Failed {
	if _, _, e := syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0); e != 0 {
		return failed(false, "become a subreaper: "+e.Error())
	}
	var f *frame.Failed
	if s.state, f = openState(s.spec.State); f != nil {
		return f
	}
	if f := s.openSocket(); f != nil {
		return f
	}
	if err := syscall.Chdir("/"); err != nil {
		return failed(true, "leave the state directory: "+err.Error())
	}
	if s.lease, f = takeLease(&s.spec); f != nil {
		return f
	}
	program := ""
	view, f := makeView(&s.spec, func() (f *frame.Failed) {
		program, f = lookUp(&s.spec)
		return f
	})
	if f != nil {
		return f
	}
	if s.lease.over() {
		return failed(true, "the lease of its volumes has ended: no server responds to this node")
	}
	defer view.close()
	return s.execute(program, view)
}

// lookUp finds what the task starts with, as it sees the files.
func lookUp(spec *frame.Spec) (program string, f *frame.Failed) {
	if spec.Isolation.On { // it does not see those of the host
		return "", nil
	}
	var st syscall.Stat_t
	err := syscall.Stat(spec.Dir, &st)
	if err == nil && st.Mode&syscall.S_IFMT != syscall.S_IFDIR {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return "", failed(false, "working directory (\"work_dir\") "+spec.Dir+": "+err.Error())
	}
	if program = findProgram(spec.Programs); program == "" {
		return "", failed(false, "command "+spec.Args[0]+": not found or not executable")
	}
	return program, nil
}

func (s *supervisor) openSocket() *frame.Failed {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err == nil {
		err = syscall.Bind(fd, &syscall.SockaddrUnix{Name: s.state.name + socketEnding})
	}
	if err == nil {
		err = syscall.Listen(fd, 4)
	}
	if err != nil {
		return failed(true, "open the command socket: "+err.Error())
	}
	s.listen = fd
	return nil
}

func findProgram(paths []string) string {
	var st syscall.Stat_t
	for _, p := range paths {
		if syscall.Stat(p, &st) == nil && st.Mode&syscall.S_IFMT == syscall.S_IFREG && st.Mode&0o111 != 0 {
			return p
		}
	}
	return ""
}

func (s *supervisor) execute(program string, v *view) *frame.Failed {
	outWrite, errWrite, f := s.openStreams()
	if f != nil {
		return f
	}
	var f2 *frame.Failed
	if s.cgroup, f2 = openCgroup(&s.spec); f2 != nil {
		return f2
	}
	if f := makeScopes(&s.spec); f != nil {
		return f
	}
	s.kills = oomKills(&s.spec)
	attr := syscall.ProcAttr{
		Files: []uintptr{0, uintptr(outWrite), uintptr(errWrite)},
		Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, PidFD: &s.pidfd},
	}
	s.startedAt = now()
	pid, f2 := fork(&s.spec, program, s.spec.Args, &attr, s.cgroup, v)
	if f2 != nil && s.cgroup != nil && s.cgroup.own && !needs(&s.spec, s.cgroup.path) {
		s.cgroup.remove()
		s.cgroup = nil
		s.kills = oomKills(&s.spec) // without the removed cgroup
		pid, f2 = fork(&s.spec, program, s.spec.Args, &attr, nil, v)
	}
	if f2 != nil {
		return f2
	}
	if s.logs != nil {
		_ = syscall.Close(outWrite)
		_ = syscall.Close(errWrite)
	}
	s.pid = pid
	s.reaper = newReaper(pid)
	go s.reaper.run()
	return nil
}

// fork starts a program of the task: with its user, environment, directory, cgroups, cores, mounts and rights.
func fork(spec *frame.Spec, program string, args []string, attr *syscall.ProcAttr, c *cgroup, v *view) (pid int, f *frame.Failed) {
	attr.Dir, attr.Env = spec.Dir, spec.Env
	if spec.User && !spec.Isolation.On {
		attr.Sys.Credential = credential(spec)
	}
	if attr.Sys.UseCgroupFD = c != nil; c != nil {
		attr.Sys.CgroupFD = c.fd
	}
	release, f := pin(spec.Cores)
	if f != nil {
		return 0, f
	}
	defer release()
	leave, f := join(spec)
	if f != nil {
		return 0, f
	}
	defer leave()
	if err := confine(spec); err != nil {
		return 0, failed(false, "give up privileges: "+err.Error())
	}
	restore, err := setOOMScore(spec.OOMScore)
	if err != nil {
		return 0, failed(false, "\"oom_score_adj\": "+err.Error())
	}
	defer restore()
	leaveNetwork, f := enterNetwork(spec)
	if f != nil {
		return 0, f
	}
	defer leaveNetwork()
	if spec.Isolation.On {
		return forkIsolated(spec, program, args, attr, v != nil)
	}
	err = v.in(func() (err error) {
		pid, err = syscall.ForkExec(program, args, attr)
		return err
	})
	if err != nil {
		again := err == syscall.EAGAIN || err == syscall.ENOMEM || err == syscall.ETXTBSY
		return 0, failed(again, "execute "+program+where(spec)+": "+err.Error())
	}
	return pid, nil
}

// forkIsolated starts an isolated task, or a command inside of one.
func forkIsolated(spec *frame.Spec, program string, args []string, attr *syscall.ProcAttr, command bool) (int, *frame.Failed) {
	if !command {
		return isolate.Start(spec, attr)
	}
	own := *spec
	own.Programs, own.Args = []string{program}, args
	return isolate.Join(taskFD, &own, attr)
}

// where adds to the text of a failed start what else than the program may be the reason.
func where(spec *frame.Spec) string {
	text := " in directory " + spec.Dir
	if spec.Cgroup != "" && !spec.OwnCgroup {
		text += " and cgroup " + spec.Cgroup
	}
	return text
}

const oomScoreFile = "/proc/self/oom_score_adj"

// setOOMScore sets the oom_score_adj that the task inherits, and returns how to restore that of this process.
func setOOMScore(score int64) (restore func(), err error) {
	if score == 0 {
		return func() {}, nil
	}
	before := readFile(oomScoreFile)
	return func() { writeFile(oomScoreFile, before) }, write(oomScoreFile, itoa(score))
}

// openStreams returns the ends for the task; descriptor 0 is /dev/null.
func (s *supervisor) openStreams() (int, int, *frame.Failed) {
	if s.spec.Stdout == "" {
		null, err := syscall.Open("/dev/null", syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			return 0, 0, failed(true, "open /dev/null: "+err.Error())
		}
		return null, null, nil
	}
	logs, err := openLogs(&s.spec)
	if err != nil {
		return 0, 0, failed(true, "open the directory of the logs: "+err.Error())
	}
	var out, err2 [2]int
	if err := syscall.Pipe2(out[:], syscall.O_CLOEXEC); err != nil {
		return 0, 0, failed(true, "make a pipe: "+err.Error())
	}
	if err := syscall.Pipe2(err2[:], syscall.O_CLOEXEC); err != nil {
		return 0, 0, failed(true, "make a pipe: "+err.Error())
	}
	_ = syscall.SetNonblock(out[0], true)
	_ = syscall.SetNonblock(err2[0], true)
	var f *frame.Failed
	s.logs, f = newLogs(newStream(out[0], logs, s.spec.Stdout, &s.spec), newStream(err2[0], logs, s.spec.Stderr, &s.spec), logs)
	return out[1], err2[1], f
}

func credential(spec *frame.Spec) *syscall.Credential {
	c := &syscall.Credential{Uid: uint32(spec.UID), Gid: uint32(spec.GID)}
	for _, g := range spec.Groups {
		c.Groups = append(c.Groups, uint32(g))
	}
	return c
}
