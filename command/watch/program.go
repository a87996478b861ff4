package watch

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/terminal"
)

// logTail is how much of a log is read at first, in bytes.
const logTail = 16 << 10

// actMax bounds how long an action takes.
const actMax = time.Minute

// program carries out the effects of the model.
type program struct {
	*model
	session *session.Session
	cluster cluster
	ctx     context.Context //nolint:containedctx // bubbletea's methods take none
	// end ends the read before.
	end   context.CancelFunc
	first []any
	send  func(tea.Msg)
}

func run(ctx context.Context, s *session.Session, start place) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m, first := newModel(s.Namespace(), start, time.Now(), s.Colors())
	p := &program{model: m, session: s, cluster: cluster{s.Client}, ctx: ctx, end: func() {}, first: first}
	options := []tea.ProgramOption{tea.WithContext(ctx), tea.WithInput(s.Input), tea.WithOutput(s.Out)}
	if !m.colors {
		options = append(options, tea.WithColorProfile(colorprofile.ASCII))
	}
	t := tea.NewProgram(p, options...)
	p.send = t.Send
	_, err := t.Run()
	if errors.Is(err, tea.ErrInterrupted) {
		return nil
	}
	return err
}

// Init implements [tea.Model].
func (p *program) Init() tea.Cmd { return tea.Batch(p.carryOut(p.first), tick()) }

func tick() tea.Cmd { return tea.Tick(time.Second, func(t time.Time) tea.Msg { return tickMsg(t) }) }

// Update implements [tea.Model].
func (p *program) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.KeyPressMsg:
		return p, p.carryOut(p.update(msg.String()))
	case tea.PasteMsg:
		return p, nil
	case tea.WindowSizeMsg:
		return p, p.carryOut(p.update(sizeMsg{msg.Width, msg.Height}))
	case tickMsg:
		return p, tea.Batch(tick(), p.carryOut(p.update(msg)))
	}
	return p, p.carryOut(p.update(msg))
}

// View implements [tea.Model].
func (p *program) View() tea.View {
	v := tea.NewView(p.view())
	v.AltScreen = true
	v.WindowTitle = "nomad watch"
	return v
}

func (p *program) carryOut(effects []any) tea.Cmd {
	var out []tea.Cmd
	for _, e := range effects {
		out = append(out, p.command(e))
	}
	return tea.Batch(out...)
}

func (p *program) command(effect any) tea.Cmd {
	switch e := effect.(type) {
	case loadEffect:
		p.end()
		ctx, cancel := context.WithCancel(p.ctx)
		p.end = cancel
		return func() tea.Msg { return p.load(ctx, e) }
	case stopEffect:
		return p.act(func(ctx context.Context, c *rest.Client) (string, error) { return stop(ctx, c, e.of) }, e.of)
	case detachEffect:
		return p.act(func(ctx context.Context, c *rest.Client) (string, error) {
			_, err := c.DetachVolume(ctx, e.of.id, e.of.node, rest.Assertion{})
			return "detached from node " + short(e.of.node), err
		}, e.of)
	case shellEffect:
		return tea.Exec(&shell{p: p, of: e.of}, func(err error) tea.Msg { return doneMsg{"the shell has ended", err} })
	case quitEffect:
		return tea.Quit
	}
	return nil
}

func (p *program) load(ctx context.Context, e loadEffect) tea.Msg {
	if e.after > 0 {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(e.after):
		}
	}
	if e.of.kind == logs {
		err := p.follow(ctx, e)
		if ctx.Err() != nil {
			return nil
		}
		return logMsg{number: e.number, err: err}
	}
	out := p.cluster.read(ctx, e)
	if ctx.Err() != nil {
		return nil
	}
	return out
}

// follow sends a log as it is written, until ctx ends or the stream breaks off.
func (p *program) follow(ctx context.Context, e loadEffect) error {
	c := cluster{p.cluster.In(e.of.namespace)}
	name, err := c.task(ctx, e.of)
	if err != nil {
		return err
	}
	kind := api.LogStdout
	if e.of.stderr {
		kind = api.LogStderr
	}
	body, err := c.Logs(ctx, e.of.id, rest.LogOptions{Task: name, Kind: kind, Follow: true, Origin: "end", Offset: logTail})
	if err != nil {
		return err
	}
	defer body.Close()
	p.send(logMsg{number: e.number, first: true})
	for buf := make([]byte, 32<<10); ; {
		n, err := body.Read(buf)
		if n > 0 && ctx.Err() == nil {
			p.send(logMsg{number: e.number, text: string(buf[:n])})
		}
		switch {
		case errors.Is(err, io.EOF):
			return errors.New("the log has ended")
		case err != nil:
			return err
		}
	}
}

func (p *program) act(do func(context.Context, *rest.Client) (string, error), of place) tea.Cmd {
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(p.ctx, actMax)
		defer cancel()
		text, err := do(ctx, p.cluster.In(of.namespace))
		return doneMsg{text, err}
	}
}

func stop(ctx context.Context, c *rest.Client, of place) (string, error) {
	if of.kind == job {
		_, err := c.StopJob(ctx, of.id, rest.StopOptions{})
		return of.name() + " is stopped", err
	}
	_, err := c.StopAlloc(ctx, of.id, false)
	return of.name() + " is stopped", err
}

// shell runs a shell in a task while the screen is suspended.
type shell struct {
	p  *program
	of place
}

// Run implements [tea.ExecCommand].
func (s *shell) Run() error {
	c := cluster{s.p.cluster.In(s.of.namespace)}
	name, err := c.task(s.p.ctx, s.of)
	if err != nil {
		return err
	}
	in := *s.p.session
	in.Client = c.Client
	in.Printf("Shell in task %q of allocation %s; ~. after a line feed ends it\n", name, short(s.of.id))
	return terminal.Shell(s.p.ctx, &in, s.of.id, rest.ExecOptions{Task: name, Command: []string{"/bin/sh"}})
}

// SetStdin implements [tea.ExecCommand]; the shell has the session's own.
func (*shell) SetStdin(io.Reader) {}

// SetStdout implements [tea.ExecCommand].
func (*shell) SetStdout(io.Writer) {}

// SetStderr implements [tea.ExecCommand].
func (*shell) SetStderr(io.Writer) {}

// capable reports whether the terminal can move its cursor.
func capable() bool { return os.Getenv("TERM") != "dumb" && os.Getenv("TERM") != "" }
