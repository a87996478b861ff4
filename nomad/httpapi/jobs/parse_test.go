package jobs

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/cpulimit"
	"github.com/open-nomad/open-nomad/jobspec"
)

// slowParses parses files that take until they are let go; begun tells of each one.
func slowParses(t *testing.T, limit time.Duration) (p *parses, begun, release chan struct{}) {
	t.Helper()
	begun, release = make(chan struct{}, 10), make(chan struct{})
	p = newParses()
	p.limit = limit
	p.parse = func(in jobspec.Input) (*api.Job, error) {
		begun <- struct{}{}
		<-release
		return &api.Job{ID: string(in.Body)}, nil
	}
	return p, begun, release
}

// Whoever has many files parsed waits for the others, not they for all of his.
func TestJobFilesOfEachClientAreParsedInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParses()
		release, order := make(chan struct{}), make(chan string, 10)
		p.parse = func(in jobspec.Input) (*api.Job, error) {
			<-release
			order <- string(in.Body)
			return &api.Job{}, nil
		}
		ended := make(chan error, 10)
		for _, name := range strings.Fields("a1 a2 a3 a4 a5 b1") {
			go func() {
				_, err := p.parseJob(cpulimit.New(1).For(t.Context(), name[:1]), api.JobsParseRequest{JobHCL: name})
				ended <- err
			}()
			synctest.Wait()
		}
		for range 6 {
			release <- struct{}{}
			if err := <-ended; err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		var parsed []string
		for range 6 {
			parsed = append(parsed, <-order)
		}
		if i := slices.Index(parsed, "b1"); i > parsesMax+1 {
			t.Error(parsed)
		}
	})
}

func TestTwoJobFilesAreParsedAtOnce(t *testing.T) {
	p, begun, release := slowParses(t, time.Minute)
	ended := make(chan error, 3)
	for range parsesMax {
		go func() { _, err := p.parseJob(t.Context(), api.JobsParseRequest{JobHCL: "j"}); ended <- err }()
		<-begun
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.parseJob(ctx, api.JobsParseRequest{JobHCL: "j"}); fault.Of(err) != fault.Exhausted || !errors.Is(err, context.Canceled) {
		t.Fatalf("the third one: %v", err)
	}
	go func() { _, err := p.parseJob(t.Context(), api.JobsParseRequest{JobHCL: "j"}); ended <- err }()
	release <- struct{}{}
	<-begun // The one that waited has its turn.
	close(release)
	for range parsesMax + 1 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestJobFileThatTakesLongIsRefusedAndKeepsItsTurn(t *testing.T) {
	p, begun, release := slowParses(t, time.Millisecond)
	for range parsesMax {
		_, err := p.parseJob(t.Context(), api.JobsParseRequest{JobHCL: "j"})
		if status := fault.Of(err).HTTPStatus(); status != 400 || !strings.Contains(err.Error(), "took longer than 1ms") {
			t.Fatalf("%d: %v", status, err)
		}
		<-begun
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := p.parseJob(ctx, api.JobsParseRequest{JobHCL: "j"}); fault.Of(err) != fault.Exhausted {
		t.Fatalf("more are parsed than may be: %v", err)
	}
	close(release)
	p.limit = time.Minute
	if j, err := p.parseJob(t.Context(), api.JobsParseRequest{JobHCL: "j"}); err != nil || j.(map[string]any)["ID"] != "j" {
		t.Fatalf("after the slow ones have ended: %v, %v", j, err)
	}
}

func TestParseIsNotWaitedForWhenTheRequestEnds(t *testing.T) {
	p, begun, release := slowParses(t, time.Minute)
	defer close(release)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-begun; cancel() }()
	if _, err := p.parseJob(ctx, api.JobsParseRequest{JobHCL: "j"}); fault.Of(err) != fault.Timeout {
		t.Fatal(err)
	}
}

func TestAParseLearnsThatItsRequestEnded(t *testing.T) {
	p := newParses()
	p.limit = time.Minute
	stopped := make(chan bool, 2)
	begun, ended := make(chan struct{}), make(chan struct{})
	p.parse = func(in jobspec.Input) (*api.Job, error) {
		stopped <- in.Stopped()
		close(begun)
		<-ended
		stopped <- in.Stopped()
		return &api.Job{}, nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-begun; cancel() }()
	_, _ = p.parseJob(ctx, api.JobsParseRequest{JobHCL: "j"})
	close(ended)
	if before, after := <-stopped, <-stopped; before || !after {
		t.Errorf("stopped before the end %v, after it %v", before, after)
	}
}
