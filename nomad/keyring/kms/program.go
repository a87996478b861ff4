package kms

import (
	"bufio"
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/program"
)

const programName = "nomad-kms"

//go:embed bin
var carried embed.FS

// Bounds of what the program writes, in bytes.
const (
	replyMax  = 1 << 20
	stderrMax = 16 << 10
)

// The messages are those of nomad-kms/main.go.
type (
	setup struct {
		Provider string
		Config   map[string]string
	}
	request struct {
		Encrypt, Decrypt []byte
		Timeout          time.Duration
	}
	reply struct {
		Result []byte
		Error  string
	}
)

// child is a running program.
type child struct {
	process *os.Process
	in      io.WriteCloser
	replies *bufio.Scanner
	// ended is closed when the program has ended; why is set before.
	ended chan struct{}
	why   error
}

// exchange sends one request to the program and returns its reply. A program that sends none in time is killed.
func (s *Service) exchange(r request) ([]byte, error) {
	c, fresh, err := s.running()
	if err != nil {
		return nil, err
	}
	limit := time.AfterFunc(r.Timeout+grace, func() { _ = c.process.Kill() })
	defer limit.Stop()
	var answer reply
	to := json.NewEncoder(c.in)
	if fresh {
		err = to.Encode(setup{s.provider, s.config})
	}
	if err == nil {
		err = to.Encode(r)
	}
	if err == nil && !c.replies.Scan() {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		err = json.Unmarshal(c.replies.Bytes(), &answer)
	}
	switch {
	case err != nil:
		s.child = nil
		_ = c.process.Kill()
		<-c.ended
		return nil, fault.New(fault.Unavailable, "the program for %s ended: %w; the next call starts it again", s.provider, c.why)
	case answer.Error != "":
		return nil, errors.New(answer.Error)
	}
	return answer.Result, nil
}

// running returns the program, which it starts unless it is running: fresh is set then.
func (s *Service) running() (c *child, fresh bool, err error) {
	if s.child != nil {
		select {
		case <-s.child.ended:
			s.child = nil
		default:
			return s.child, false, nil
		}
	}
	path, err := program.Install(s.carried, programName, s.dir)
	if err != nil {
		return nil, false, err
	}
	if c, err = start(path); err != nil {
		return nil, false, fault.New(fault.Unavailable, "run %s: %w (is the file system mounted noexec?)", path, err)
	}
	old, _ := filepath.Glob(filepath.Join(s.dir, programName+"-*"))
	for _, name := range old { // of earlier versions
		if name != path {
			_ = os.Remove(name)
		}
	}
	s.child = c
	return c, true, nil
}

// start starts the program. Its environment is the agent's, which may have credentials for the service.
func start(path string) (c *child, err error) {
	cmd, errs := exec.Command(path), &head{}
	out, write := io.Pipe()
	c = &child{replies: bufio.NewScanner(out), ended: make(chan struct{})}
	c.replies.Buffer(nil, replyMax)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = write, errs, time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt at the terminal is for the agent
	if c.in, err = cmd.StdinPipe(); err != nil {          // it ends with the agent, and the program with it
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c.process = cmd.Process
	go func() {
		_ = cmd.Wait() // the state of the process is the reason
		c.why = errors.New(strings.TrimSuffix(cmd.ProcessState.String()+": "+errs.reason(), ": "))
		_ = write.CloseWithError(io.EOF)
		close(c.ended)
	}()
	return c, nil
}

// head keeps the first bytes of an output.
type head struct{ bytes.Buffer }

// Write keeps what fits and reports all of p as written.
func (h *head) Write(p []byte) (int, error) {
	h.Buffer.Write(p[:min(len(p), stderrMax-h.Len())])
	return len(p), nil
}

// ReadFrom hides the method of the buffer, which has no limit.
func (h *head) ReadFrom(r io.Reader) (int64, error) { return io.Copy(struct{ io.Writer }{h}, r) }

// reason is the first line of a panic, or else of all.
func (h *head) reason() string {
	text := h.String()
	if at := strings.Index(text, "panic: "); at >= 0 {
		text = text[at:]
	}
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}
