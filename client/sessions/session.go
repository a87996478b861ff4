package sessions

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// phase is where a session stands.
type phase string

const (
	phaseOpen    phase = "open"
	phaseRunning phase = "running"
	phaseEnded   phase = "ended"
)

// session is one command with its caller.
type session struct {
	Command
	id     string
	table  *Table
	ctx    context.Context
	cancel context.CancelFunc
	// sizes carries the newest size of the terminal.
	sizes chan driver.TerminalSize

	mu    sync.Mutex
	phase phase
	// closed is set when the caller or the clock has ended the session.
	closed bool
	// calls are those under way; idle ends the session when there is none for long.
	calls int
	idle  *time.Timer
	// changed is closed and replaced whenever something below changes.
	changed chan struct{}
	// input is what the command has not read; accepted counts all bytes of input, inputEnd is set after the last one.
	input    []byte
	accepted int64
	inputEnd bool
	// output is what the caller has not confirmed; it begins at offset and has waiting bytes.
	output  []api.ExecOutput
	offset  int64
	waiting int64
	// sizeNumber is that of the newest size.
	sizeNumber uint64
	code       int
	err        error
}

func newSession(t *Table, id string, c Command) *session {
	s := &session{Command: c, id: id, table: t, phase: phaseOpen, changed: make(chan struct{}), sizes: make(chan driver.TerminalSize, 1)}
	s.ctx, s.cancel = context.WithCancel(t.life)
	s.idle = time.AfterFunc(IdleMax, s.expire)
	return s
}

// use marks a call under way until the function that it returns is called.
func (s *session) use() (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	s.idle.Stop()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.calls--; s.calls == 0 && !s.closed {
			s.idle.Reset(IdleMax)
		}
	}
}

// expire ends a session that no call uses.
func (s *session) expire() {
	s.mu.Lock()
	used := s.calls > 0
	s.mu.Unlock()
	if !used {
		s.close()
	}
}

// close ends the session and its command. It counts until the command has ended.
func (s *session) close() {
	s.mu.Lock()
	s.closed = true
	s.idle.Stop()
	running := s.phase == phaseRunning
	s.notify()
	s.mu.Unlock()
	s.cancel()
	if !running {
		s.table.remove(s)
	}
}

// notify wakes what waits for a change; the caller holds the lock.
func (s *session) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// ended records the end of the command.
func (s *session) ended(code int, err error) {
	s.mu.Lock()
	s.phase, s.code, s.err = phaseEnded, code, err
	closed := s.closed
	s.notify()
	s.mu.Unlock()
	if closed {
		s.table.remove(s)
	}
}

// exchange takes what the request brings and waits for what it asks for.
func (s *session) exchange(ctx context.Context, r *api.ExecRequest) (*api.ExecResponse, error) {
	timer := time.NewTimer(max(0, min(r.Wait, WaitMax)))
	defer timer.Stop()
	for waited := false; ; {
		s.mu.Lock()
		resp, done, err := s.advance(r)
		changed := s.changed
		s.mu.Unlock()
		if done || waited || err != nil {
			return resp, err
		}
		select {
		case <-changed:
		case <-timer.C:
			waited = true
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// advance takes what the request brings as far as there is room, and reports whether there is something to return. The
// caller holds the lock.
func (s *session) advance(r *api.ExecRequest) (resp *api.ExecResponse, done bool, err error) {
	if s.closed {
		return nil, false, fault.New(fault.NotFound, "the session was ended")
	}
	if err := s.confirm(r.Received); err != nil {
		return nil, false, err
	}
	if r.SizeNumber > s.sizeNumber {
		s.resize(r)
	}
	if s.phase == phaseOpen {
		s.phase = phaseRunning
		s.table.start(s)
	}
	if len(r.Input) > 0 || r.InputEnd || r.SizeNumber > 0 {
		done, err = s.accept(r)
		over := s.phase == phaseEnded
		return &api.ExecResponse{Accepted: s.accepted, Exited: over}, done || over, err
	}
	resp = &api.ExecResponse{Accepted: s.accepted, Offset: s.offset, Output: s.output[:len(s.output):len(s.output)]}
	if s.phase == phaseEnded {
		if s.err != nil && s.waiting == 0 {
			return nil, false, s.err
		}
		resp.Exited, resp.ExitCode = s.err == nil, s.code
		return resp, true, nil
	}
	return resp, s.waiting > 0, nil
}

// confirm drops the output that the caller has.
func (s *session) confirm(received int64) error {
	if received > s.offset+s.waiting {
		return fault.New(fault.Invalid, "%d bytes of output are confirmed of %d", received, s.offset+s.waiting)
	}
	n := received - s.offset
	if n <= 0 {
		return nil
	}
	s.offset, s.waiting = received, s.waiting-n
	var rest []api.ExecOutput // responses under way share the old list
	for _, o := range s.output {
		if skip := min(n, int64(len(o.Data))); skip > 0 {
			n -= skip
			o.Data = o.Data[skip:]
		}
		if len(o.Data) > 0 {
			rest = append(rest, o)
		}
	}
	s.output = rest
	s.notify()
	return nil
}

// accept takes the part of the input that is new and for which there is room. It reports whether all of it is accepted.
func (s *session) accept(r *api.ExecRequest) (all bool, err error) {
	end := r.InputOffset + int64(len(r.Input))
	if r.InputOffset < 0 || r.InputOffset > s.accepted {
		return false, fault.New(fault.Invalid, "input begins at %d, and %d bytes came before", r.InputOffset, s.accepted)
	}
	before := s.accepted
	if fresh := end - s.accepted; fresh > 0 && !s.inputEnd {
		part := r.Input[int64(len(r.Input))-fresh:]
		part = part[:min(len(part), max(0, InputMax-len(s.input)))]
		s.input = append(s.input, part...)
		s.accepted += int64(len(part))
	}
	last := r.InputEnd && end == s.accepted
	if s.accepted > before || last && !s.inputEnd {
		s.inputEnd = s.inputEnd || last
		s.notify()
	}
	return end <= s.accepted || s.accepted > before, nil
}

// resize passes the newest size on; one that the command has not taken yet is replaced.
func (s *session) resize(r *api.ExecRequest) {
	s.sizeNumber = r.SizeNumber
	select {
	case <-s.sizes:
	default:
	}
	s.sizes <- driver.TerminalSize{Width: r.Width, Height: r.Height} // it has a free slot, and only this goroutine sends: the lock is held
}

// command is the session as the driver sees it.
func (s *session) command() *driver.Command {
	c := &driver.Command{Args: s.Args, TTY: s.TTY, Stdin: stdin{s}, Stdout: output{s, false}, Stderr: output{s, true}}
	if s.TTY {
		c.Resize = s.sizes
	}
	return c
}

// stdin is the input of the command.
type stdin struct{ *session }

// Read implements [io.Reader]. It returns when the session ends.
func (r stdin) Read(into []byte) (int, error) {
	for {
		r.mu.Lock()
		if n := copy(into, r.input); n > 0 || len(into) == 0 {
			if r.input = r.input[n:]; len(r.input) == 0 {
				r.input = nil
			}
			r.notify()
			r.mu.Unlock()
			return n, nil
		}
		over, changed := r.inputEnd || r.phase == phaseEnded, r.changed
		r.mu.Unlock()
		if over {
			return 0, io.EOF
		}
		select {
		case <-changed:
		case <-r.ctx.Done():
			return 0, r.ctx.Err()
		}
	}
}

// output is one of the outputs of the command.
type output struct {
	*session
	stderr bool
}

// Write implements [io.Writer]. It waits until there is room for all of p, or until the session ends.
func (w output) Write(p []byte) (written int, err error) {
	for {
		w.mu.Lock()
		room := OutputMax - w.waiting
		if part := p[written:][:min(int64(len(p)-written), room)]; len(part) > 0 {
			w.append(part)
			written += len(part)
			w.notify()
		}
		changed := w.changed
		w.mu.Unlock()
		if written == len(p) {
			return written, nil
		}
		select {
		case <-changed:
		case <-w.ctx.Done():
			return written, w.ctx.Err()
		}
	}
}

// append adds a part to the output; small parts of one stream become one.
func (w output) append(part []byte) {
	const joined = 4 << 10
	w.waiting += int64(len(part))
	if n := len(w.session.output); n > 0 {
		if last := w.session.output[n-1]; last.Stderr == w.stderr && len(last.Data)+len(part) <= joined {
			rest := append([]api.ExecOutput(nil), w.session.output...)
			rest[n-1].Data = append(append([]byte(nil), last.Data...), part...)
			w.session.output = rest
			return
		}
	}
	w.session.output = append(w.session.output, api.ExecOutput{Stderr: w.stderr, Data: append([]byte(nil), part...)})
}
