package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

const (
	attachTimeout = 5 * time.Second
	// answerWait is how long Attach waits for a process that it knows by its handle.
	answerWait = time.Second
	retryEvery = 10 * time.Millisecond
)

// Attach takes up a task that an earlier agent started: it runs, or its exit is on record. When neither holds, what is
// left of it is killed and, unless the kernel does not end that, the error is of class fault.NotFound. If a
// supervising process does not respond in time, Attach waits for it in the background.
func Attach(caller context.Context, id Ident) (*Process, error) {
	limit := attachTimeout
	if id.Boot != "" {
		limit = answerWait
	}
	ctx, cancel := context.WithTimeout(caller, limit)
	defer cancel()
	for {
		if x, ok := readExit(id.State); ok {
			return attachEnded(ctx, id, x), nil
		}
		if id.anotherBoot() {
			return nil, fault.New(fault.NotFound, "supervising process of task %s: it ran before the host was started again", id.TaskID)
		}
		conn, r, err := dial(ctx, id)
		if err == nil {
			p := &Process{ident: id, conn: conn, done: make(chan struct{})}
			p.learn(r)
			go p.follow()
			return p, nil
		}
		if !alive(id.PID, id.Ticks) {
			if x, ok := readExit(id.State); ok {
				return ended(id, x), nil
			}
			endLeftovers(id)
			if p := ended(id, Exit{Lost: true, FinishedAt: time.Now()}); p.holdsOn(ctx) {
				return p, nil
			}
			return nil, fault.New(fault.NotFound, "supervising process of task %s", id.TaskID)
		}
		select {
		case <-time.After(retryEvery):
		case <-ctx.Done():
			if caller.Err() != nil || id.Boot == "" {
				return nil, fault.New(fault.Unavailable, "reach the supervising process of task %s: %w", id.TaskID, err)
			}
			// It is there, and stuck: the task can be ended without it.
			p := &Process{ident: id, done: make(chan struct{})}
			go p.follow()
			return p, nil
		}
	}
}

// holdOnWait is how long the kernel has to end what a vanished supervising process left.
const holdOnWait = time.Second

// holdsOn reports whether processes of the task are left that do not end though they were killed.
func (p *Process) holdsOn(ctx context.Context) bool {
	for end := time.Now().Add(holdOnWait); len(p.Remains()) > 0; time.Sleep(retryEvery) {
		if ctx.Err() != nil || time.Now().After(end) {
			return true
		}
	}
	return false
}

// Find asks the supervising process behind a state path who it is; used for paths that no handle names. An
// error of class fault.NotFound means that none runs, one of class fault.Unavailable that it does not respond.
func Find(ctx context.Context, state string) (Ident, error) {
	ctx, cancel := context.WithTimeout(ctx, attachTimeout)
	defer cancel()
	conn, r, err := dial(ctx, Ident{State: state})
	for ends(err) && ctx.Err() == nil { // it is ending
		time.Sleep(retryEvery)
		conn, r, err = dial(ctx, Ident{State: state})
	}
	switch {
	case (errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)) && !locked(state):
		return Ident{}, fault.New(fault.NotFound, "supervising process at %s: %w", state, err)
	case err != nil:
		return Ident{}, fault.New(fault.Unavailable, "supervising process at %s: %w", state, err)
	}
	defer conn.Close()
	pid, err := peerPID(conn)
	if err != nil {
		return Ident{}, err
	}
	id := Ident{State: state, TaskID: r.TaskID, Boot: bootID(), PID: pid, TaskPID: int(r.PID), StartedAt: time.Unix(0, r.StartedAt), LeaseOf: r.LeaseOf}
	id.Ticks, _ = startTicks(id.PID)
	id.TaskTicks, _ = startTicks(id.TaskPID)
	id.Mark = markAt(state)
	return id, nil
}

// ends reports whether a connection broke off: the process behind it is ending.
func ends(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// dial connects to the socket at a state path and checks that the process behind it is the one meant;
// an Ident without pid takes any. The way through /proc keeps the path short enough for a socket address.
func dial(ctx context.Context, id Ident) (*net.UnixConn, *frame.Running, error) {
	dir, err := unix.Open(filepath.Dir(id.State), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errGone, err)
	}
	defer unix.Close(dir)
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", filepath.Join("/proc/self/fd", strconv.Itoa(dir), filepath.Base(id.State)+".sock"))
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errGone, err)
	}
	conn := c.(*net.UnixConn)
	r, err := greet(ctx, conn, id)
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, r, nil
}

func greet(ctx context.Context, conn *net.UnixConn, id Ident) (*frame.Running, error) {
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	kind, body, err := readFrame(conn)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errGone, err)
	}
	var r frame.Running
	if kind != frame.KindRunning || r.Decode(body) != nil {
		return nil, frame.ErrMalformed
	}
	if id.PID == 0 {
		return &r, nil
	}
	pid, err := peerPID(conn)
	if err != nil {
		return nil, err
	}
	ticks, ok := startTicks(pid)
	if pid != id.PID || r.TaskID != id.TaskID || (ok && ticks != id.Ticks) {
		return nil, fault.New(fault.Conflict, "process %d serves task %s at %s", pid, r.TaskID, id.State)
	}
	return &r, nil
}

func peerPID(conn *net.UnixConn) (int, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err != nil || credErr != nil {
		return 0, fault.New(fault.Internal, "ask for the peer of a socket: %v%v", err, credErr)
	}
	return int(cred.Pid), nil
}

// endLeftovers kills what a vanished supervising process left. The kernel killed the main process with it; the others
// are found by the task's cgroups, by its session, which is named after the main process, and, where they have left both,
// as only root's can, by their environment.
func endLeftovers(id Ident) {
	killCgroup(id.Cgroup)
	for _, dir := range id.Scopes {
		killScope(dir)
	}
	killSession(id)
	killOrphans(id)
	for _, dir := range append([]string{id.Cgroup}, id.Scopes...) {
		removeCgroup(dir)
	}
}

// killSession kills the session of the task's main process, unless another process has its number now. If the handle
// is of an earlier boot, or records no boot, nothing that is left can be identified by the number.
func killSession(id Ident) {
	if id.TaskPID <= 1 || id.Boot == "" || id.Boot != bootID() {
		return
	}
	if ticks, ok := startTicks(id.TaskPID); ok && ticks != id.TaskTicks {
		return
	}
	for _, p := range processes() {
		if p.session == id.TaskPID && p.ticks >= id.TaskTicks && !isHelper(p.pid) {
			_ = send(p.pid, p.ticks, syscall.SIGKILL)
		}
	}
}

// isHelper reports whether a process serves a mount and was taken out of the life of its task by an agent.
func isHelper(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	return err == nil && frame.InHelperScope(string(b), func(dir string) bool {
		var st unix.Stat_t
		return unix.Lstat(dir, &st) == nil && int(st.Uid) == os.Geteuid()
	})
}

// EndLeftovers kills and removes what a supervising process left that has vanished, and of which there is no handle. It returns by what that is known which the kernel has not ended in time, and those processes. While it
// kills, no other one begins there.
func EndLeftovers(ctx context.Context, state, cgroup string, scopes []string) (Ident, []Remain) {
	f, err := os.Open(state + ".lock")
	if err == nil {
		defer f.Close()
		for tries := 1; unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil; tries++ {
			if tries == holdTries {
				return Ident{}, nil // there is one
			}
			time.Sleep(holdPause)
		}
	}
	id := Ident{State: state, Boot: bootID(), Cgroup: cgroup, Scopes: scopes, Mark: markAt(state)}
	endLeftovers(id)
	if p := ended(id, Exit{Lost: true}); p.holdsOn(ctx) {
		return id, p.Remains()
	}
	return id, nil
}
