package steps

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/internal/retry"
	"github.com/open-nomad/open-nomad/internal/tracing"
)

// Step is one thing to bring up and take down. Both directions may be repeated at any time, also after a
// crash in the middle; Down also works when Up failed half way.
type Step[S any] interface {
	Name() string
	Up(ctx context.Context, scope *S) error
	Down(ctx context.Context, scope *S) error
}

// Marks of a step in the journal; a step without mark never began.
const (
	// MarkBegun means that Up was called and has not returned well.
	MarkBegun = "begun"
	// MarkUp means that Up succeeded.
	MarkUp = "up"
	// MarkDown means that Down succeeded.
	MarkDown = "down"
)

// Journal keeps the marks of one list of steps across restarts.
type Journal interface {
	Marks() (map[string]string, error)
	Mark(step, mark string) error
}

// Pace is how fast failing Downs are repeated.
type Pace struct{ First, Max time.Duration }

// DefaultPace repeats after 100 ms, then doubles up to 15 s.
var DefaultPace = Pace{First: 100 * time.Millisecond, Max: 15 * time.Second}

// Engine runs one list of steps. One goroutine at a time may use it.
type Engine[S any] struct {
	list    []Step[S]
	journal Journal
	pace    Pace
	log     hclog.Logger
	// Observe is called after each Up of a step; may be nil.
	Observe func(step string, took time.Duration, err error)
}

// New makes an engine over the steps in their order of Up.
func New[S any](list []Step[S], journal Journal, pace Pace, log hclog.Logger) *Engine[S] {
	return &Engine[S]{list: list, journal: journal, pace: pace, log: log}
}

// Up runs the steps in order and stops at the first error; the caller decides whether to call Down.
func (e *Engine[S]) Up(ctx context.Context, scope *S) error {
	for _, s := range e.list {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := e.journal.Mark(s.Name(), MarkBegun); err != nil {
			return fmt.Errorf("record step %s: %w", s.Name(), err)
		}
		began := time.Now()
		within, span := tracing.Start(ctx, "step ", s.Name())
		err := s.Up(within, scope)
		span.End(err)
		if e.Observe != nil {
			e.Observe(s.Name(), time.Since(began), err)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name(), err)
		}
		if err := e.journal.Mark(s.Name(), MarkUp); err != nil {
			return fmt.Errorf("record step %s: %w", s.Name(), err)
		}
	}
	return nil
}

// Down takes down, in reverse, every step whose Up ever began. It returns nil when all are down and an
// error only when ctx ended first.
func (e *Engine[S]) Down(ctx context.Context, scope *S) error {
	marks, err := e.marks(ctx)
	if err != nil {
		return err
	}
	for _, s := range slices.Backward(e.list) {
		if mark := marks[s.Name()]; mark == "" || mark == MarkDown {
			continue
		}
		if err := e.untilDone(ctx, "take down "+s.Name(), func() error { return s.Down(ctx, scope) }); err != nil {
			return err
		}
		if err := e.untilDone(ctx, "record end of "+s.Name(), func() error { return e.journal.Mark(s.Name(), MarkDown) }); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine[S]) marks(ctx context.Context) (marks map[string]string, err error) {
	return marks, e.untilDone(ctx, "read journal", func() error {
		var err error
		marks, err = e.journal.Marks()
		return err
	})
}

// untilDone repeats do with growing pauses until it succeeds or ctx ends.
func (e *Engine[S]) untilDone(ctx context.Context, action string, do func() error) error {
	pauses := retry.Between(e.pace.First, e.pace.Max)
	for {
		err := do()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", action, ctx.Err())
		}
		pause := pauses.Next()
		e.log.Warn("step failed and is repeated", "action", action, "retry_in", pause, "error", err)
		if !retry.Sleep(ctx, pause) {
			return fmt.Errorf("%s: %w", action, ctx.Err())
		}
	}
}
