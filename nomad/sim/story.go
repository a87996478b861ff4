package sim

import (
	"fmt"
	"strings"
)

// Options say how a seed is played.
type Options struct {
	// Steps is how many events there are before all faults cease; zero means [DefaultSteps].
	Steps int
	// Bug is planted.
	Bug Bug
}

// DefaultSteps is how many events a seed has unless the options say otherwise.
const DefaultSteps = 300

// Story is what happened in one run.
type Story struct {
	Seed  uint64
	Lines []string
	Tally
}

// Tally counts what happened.
type Tally struct {
	// Events are steps of the world and what arrived after the faults ceased.
	Events int
	// Claims are claims that were made, Waited those of them that had to wait first.
	Claims, Waited int
	// Faults are actions that went wrong on purpose.
	Faults int
	// Grown are expansions.
	Grown int
}

// Add adds the counts of another run.
func (t *Tally) Add(o Tally) {
	t.Events += o.Events
	t.Claims += o.Claims
	t.Waited += o.Waited
	t.Faults += o.Faults
	t.Grown += o.Grown
}

// String tells the story.
func (s *Story) String() string { return strings.Join(s.Lines, "\n") }

// Failure is a broken invariant with the story that led to it.
type Failure struct {
	Broken string
	Story  *Story
}

// Error names the seed, what broke, and tells the story.
func (f *Failure) Error() string {
	return fmt.Sprintf("seed %d: %s\n%s", f.Story.Seed, f.Broken, f.Story)
}

// Run plays one seed. The error is a [*Failure] when an invariant broke; the story is told anyway.
func Run(seed uint64, o Options) (*Story, error) {
	w, err := newWorld(seed, o.Bug)
	if err != nil {
		return nil, err
	}
	if o.Steps == 0 {
		o.Steps = DefaultSteps
	}
	for range o.Steps {
		w.step()
		if w.check(); w.broken != "" {
			return w.end()
		}
	}
	w.settle()
	return w.end()
}

func (w *World) end() (*Story, error) {
	w.story.Seed = w.seed
	if w.broken != "" {
		return &w.story, &Failure{Broken: w.broken, Story: &w.story}
	}
	return &w.story, nil
}
