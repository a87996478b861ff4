package sessions

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/workgroup"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

const (
	// IdleMax is how long a session lives without a call.
	IdleMax = 30 * time.Second
	// SessionsMax limits the sessions of a node.
	SessionsMax = 64
	// SessionsPerTask limits the sessions of a task.
	SessionsPerTask = 16
	// OutputMax is how many bytes of output wait for the caller.
	OutputMax = 256 << 10
	// InputMax is how many bytes of input wait for the command.
	InputMax = 64 << 10
	// WaitMax limits how long an exchange waits.
	WaitMax = 10 * time.Second
	idMax   = 128
)

// Command is what a session runs.
type Command struct {
	AllocID, Task string
	Args          []string
	// Action is the name of the action that it is, "" for none.
	Action string
	TTY    bool
	// OnNode is set when the task sees the files of the node.
	OnNode bool
	// Accessor is the token of the caller, From its address; both may be empty.
	Accessor, From string
	// Run runs the command inside the task, see [driver.Execer].
	Run func(context.Context, *driver.Command) (int, error)
	// Started is called when the command starts.
	Started func()
}

// Table is the sessions of a node.
type Table struct {
	log hclog.Logger
	// life ends all commands.
	life context.Context
	end  context.CancelFunc
	runs workgroup.Group

	mu       sync.Mutex
	sessions map[string]*session
}

// New makes the table of a node.
func New(log hclog.Logger) *Table {
	t := &Table{log: log, sessions: map[string]*session{}}
	t.life, t.end = context.WithCancel(context.Background())
	return t
}

// Run waits until ctx ends, and then ends all sessions.
func (t *Table) Run(ctx context.Context) error {
	<-ctx.Done()
	t.end()
	t.mu.Lock()
	all := slices.Collect(maps.Values(t.sessions))
	t.mu.Unlock()
	for _, s := range all {
		s.close()
	}
	if left := t.runs.Wait(); len(left) > 0 {
		t.log.Warn("commands in tasks have not ended: they hang", "sessions", left)
	}
	return nil
}

// Open makes a session. A repeated call leaves it as it is.
func (t *Table) Open(id string, c Command) error {
	if id == "" || len(id) > idMax {
		return fault.New(fault.Invalid, "the id of a session has 1 to %d bytes", idMax)
	}
	if len(c.Args) == 0 || c.Args[0] == "" {
		return fault.New(fault.Invalid, "task %q: the command is empty: give a program", c.Task)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.life.Err() != nil {
		return fault.New(fault.Unavailable, "the agent ends")
	}
	if old := t.sessions[id]; old != nil {
		if old.AllocID != c.AllocID || old.Task != c.Task {
			return fault.New(fault.Conflict, "the session belongs to another task")
		}
		return nil
	}
	ofTask := 0
	for _, s := range t.sessions {
		if s.AllocID == c.AllocID && s.Task == c.Task {
			ofTask++
		}
	}
	switch {
	case ofTask >= SessionsPerTask:
		return fault.New(fault.Exhausted, "task %q runs %d commands of users: end one of them, or wait", c.Task, ofTask)
	case len(t.sessions) >= SessionsMax:
		return fault.New(fault.Exhausted, "the tasks of this node run %d commands of users: end one of them, or wait", len(t.sessions))
	}
	t.sessions[id] = newSession(t, id, c)
	return nil
}

// Exchange passes input to a session and returns its output. onNode is set when the caller has the right on tasks that see
// the files of the node.
func (t *Table) Exchange(ctx context.Context, r *api.ExecRequest, onNode bool) (*api.ExecResponse, error) {
	t.mu.Lock()
	s := t.sessions[r.SessionID]
	t.mu.Unlock()
	if s == nil || s.AllocID != r.AllocID {
		return nil, fault.New(fault.NotFound, "the session has ended: no call used it for %s, or the agent of the node was started again", IdleMax)
	}
	if s.OnNode && !onNode {
		return nil, fault.New(fault.Denied, "task %q sees the files of the node: commands in it need the capability alloc-node-exec", s.Task)
	}
	defer s.use()()
	if r.Stop {
		s.close()
		return &api.ExecResponse{}, nil
	}
	return s.exchange(ctx, r)
}

// start runs the command of a session in its own goroutine.
func (t *Table) start(s *session) {
	t.runs.Go(s.id, func() {
		defer s.cancel()
		log := t.log.With("alloc", s.AllocID, "task", s.Task, "program", s.Args[0], "arguments", len(s.Args)-1, "action", s.Action,
			"accessor", s.Accessor, "from", s.From)
		log.Info("a user runs a command in a task")
		s.Started()
		began := time.Now()
		code, err := s.Run(s.ctx, s.command())
		took := time.Since(began).Round(time.Millisecond)
		switch {
		case err == nil:
			log.Info("the command has ended", "exit_code", code, "took", took)
		case s.ctx.Err() != nil:
			log.Info("the command was ended with its session", "took", took)
		default:
			log.Info("the command failed", "took", took, "error", err)
		}
		if errors.Is(err, fault.Unavailable) || errors.Is(err, fault.NotLeader) {
			err = fault.Wrap(fault.Internal, err) // callers repeat calls that are unavailable, and this one would fail again
		}
		s.ended(code, err)
	})
}

func (t *Table) remove(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sessions[s.id] == s {
		delete(t.sessions, s.id)
	}
}
