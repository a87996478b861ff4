package steps_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/client/steps"
)

type scope struct{ calls []string }

// scripted fails as often as told and notes its calls.
type scripted struct {
	name              string
	upFails, downFail int
}

func (s *scripted) Name() string { return s.name }

func (s *scripted) Up(_ context.Context, sc *scope) error {
	sc.calls = append(sc.calls, "+"+s.name)
	if s.upFails > 0 {
		s.upFails--
		return errors.New("no")
	}
	return nil
}

func (s *scripted) Down(_ context.Context, sc *scope) error {
	sc.calls = append(sc.calls, "-"+s.name)
	if s.downFail > 0 {
		s.downFail--
		return errors.New("busy")
	}
	return nil
}

type journal struct {
	marks map[string]string
	fail  error
}

func (j *journal) Marks() (map[string]string, error) { return maps.Clone(j.marks), nil }

func (j *journal) Mark(step, mark string) error {
	if j.fail != nil {
		return j.fail
	}
	j.marks[step] = mark
	return nil
}

func engine(j steps.Journal, list ...steps.Step[scope]) *steps.Engine[scope] {
	return steps.New(list, j, steps.Pace{First: time.Second, Max: 4 * time.Second}, hclog.NewNullLogger())
}

func TestDownReversesWhatBegan(t *testing.T) {
	j, sc := &journal{marks: map[string]string{}}, &scope{}
	e := engine(j, &scripted{name: "a"}, &scripted{name: "b", upFails: 1}, &scripted{name: "c"})
	if err := e.Up(t.Context(), sc); err == nil || !strings.Contains(err.Error(), "b: no") {
		t.Fatalf("up: %v", err)
	}
	if err := e.Down(t.Context(), sc); err != nil {
		t.Fatal(err)
	}
	if want := []string{"+a", "+b", "-b", "-a"}; !slices.Equal(sc.calls, want) {
		t.Fatalf("calls %v, want %v", sc.calls, want)
	}
	if err := e.Down(t.Context(), sc); err != nil || len(sc.calls) != 4 {
		t.Fatalf("second down: %v %v", err, sc.calls)
	}
}

func TestRestartReplaysUpAndRemembersForDown(t *testing.T) {
	j := &journal{marks: map[string]string{"a": steps.MarkUp, "b": steps.MarkBegun}}
	list := func() []steps.Step[scope] {
		return []steps.Step[scope]{&scripted{name: "a"}, &scripted{name: "b"}, &scripted{name: "c"}}
	}
	sc := &scope{}
	if err := engine(j, list()...).Down(t.Context(), sc); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(sc.calls); got != "[-b -a]" {
		t.Fatalf("down after a crash: %v", got)
	}
	sc = &scope{}
	if err := engine(j, list()...).Up(t.Context(), sc); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(sc.calls); got != "[+a +b +c]" {
		t.Fatalf("replay: %v", got)
	}
}

func TestDownIsRepeatedAtACappedRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, sc := &journal{marks: map[string]string{"a": steps.MarkUp, "b": steps.MarkUp}}, &scope{}
		began := time.Now()
		if err := engine(j, &scripted{name: "a"}, &scripted{name: "b", downFail: 5}).Down(t.Context(), sc); err != nil {
			t.Fatal(err)
		}
		const around = (1 + 2 + 4 + 4 + 4) * time.Second // each pause is half of its length to one and a half of it
		if took := time.Since(began); took < around/2 || took > around+around/2 {
			t.Errorf("took %s, want around %s", took, around)
		}
		if got := fmt.Sprint(sc.calls); got != "[-b -b -b -b -b -b -a]" {
			t.Errorf("calls %s", got)
		}
	})
}

func TestContextEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		j := &journal{marks: map[string]string{"a": steps.MarkUp}}
		err := engine(j, &scripted{name: "a", downFail: 99}).Down(ctx, &scope{})
		if !errors.Is(err, context.DeadlineExceeded) || j.marks["a"] != steps.MarkUp {
			t.Fatalf("%v, mark %s", err, j.marks["a"])
		}
		if err := engine(j, &scripted{name: "a"}).Up(ctx, &scope{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("up after the end: %v", err)
		}
	})
}

func TestUpNeedsTheJournal(t *testing.T) {
	sc := &scope{}
	if err := engine(&journal{fail: errors.New("disk full")}, &scripted{name: "a"}).Up(t.Context(), sc); err == nil || len(sc.calls) > 0 {
		t.Fatalf("%v %v", err, sc.calls)
	}
}
