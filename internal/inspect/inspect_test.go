package inspect_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/inspect"
)

func open(debug bool) (*inspect.Agent, hclog.Logger) {
	log := hclog.NewInterceptLogger(&hclog.LoggerOptions{Level: hclog.Error, Output: io.Discard})
	return inspect.New(inspect.Config{ID: "a1", Log: log, Debug: debug}), log.Named("part")
}

// follow reads the log until a text is in it.
func follow(t *testing.T, a *inspect.Agent, r *api.AgentMonitorRequest, text string) string {
	t.Helper()
	all := ""
	for end := time.Now().Add(time.Minute); !strings.Contains(all, text); {
		if time.Now().After(end) {
			t.Fatalf("%q is not in the log %q", text, all)
		}
		out, err := a.Monitor(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		all += string(out.Data)
		r.Session, r.Position = out.Session, out.Position
	}
	return all
}

func TestTheLogIsFollowedAtALevelOfItsOwn(t *testing.T) {
	a, log := open(true)
	r := &api.AgentMonitorRequest{LogLevel: "debug"}
	if out, err := a.Monitor(t.Context(), r); err != nil || len(out.Data) > 0 {
		t.Fatalf("a new session has %q, %v", out.Data, err)
	} else {
		r.Session = out.Session
	}
	r.Wait = time.Second
	log.Debug("first")
	log.Trace("hidden")
	log.Info("second")
	if text := follow(t, a, r, "second"); !strings.Contains(text, "part: first") || strings.Contains(text, "hidden") {
		t.Errorf("the log is %q", text)
	}
}

func TestALostReplyIsReadAgain(t *testing.T) {
	a, log := open(true)
	r := &api.AgentMonitorRequest{}
	out, err := a.Monitor(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	log.Info("line")
	again := &api.AgentMonitorRequest{Session: out.Session, Position: out.Position}
	for range 2 {
		if got, err := a.Monitor(t.Context(), again); err != nil || !strings.Contains(string(got.Data), "line") {
			t.Errorf("got %q, %v", got.Data, err)
		}
	}
}

func TestASlowReaderLosesLinesAndReadsHowMany(t *testing.T) {
	a, log := open(true)
	out, err := a.Monitor(t.Context(), &api.AgentMonitorRequest{})
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 1000)
	for range 2000 {
		log.Info(long)
	}
	r := &api.AgentMonitorRequest{Session: out.Session}
	for range 5 {
		got, err := a.Monitor(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		r.Position = got.Position
	}
	log.Info("last")
	if text := follow(t, a, r, "last"); !strings.Contains(text, "lines are left out") {
		t.Errorf("the end of the log is %q", text)
	}
}

func TestWhatIsRefused(t *testing.T) {
	a, _ := open(false)
	var none *inspect.Agent
	if _, err := a.Monitor(t.Context(), &api.AgentMonitorRequest{LogLevel: "loud"}); fault.Of(err) != fault.Invalid {
		t.Errorf("an unknown level: %v", err)
	}
	if _, err := a.Monitor(t.Context(), &api.AgentMonitorRequest{Session: "x"}); fault.Of(err) != fault.NotFound {
		t.Errorf("an unknown session: %v", err)
	}
	if _, err := a.Host(t.Context()); fault.Of(err) != fault.Denied {
		t.Errorf("the host without enable_debug: %v", err)
	}
	if _, err := none.Profile(t.Context(), &api.AgentProfileRequest{}); fault.Of(err) != fault.Unimplemented {
		t.Errorf("no agent: %v", err)
	}
	open, _ := open(true)
	if _, err := open.Profile(t.Context(), &api.AgentProfileRequest{Profile: "moon"}); fault.Of(err) != fault.NotFound {
		t.Errorf("an unknown profile: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := open.Monitor(ctx, &api.AgentMonitorRequest{Wait: time.Second}); !errors.Is(err, context.Canceled) {
		t.Errorf("a reader that leaves: %v", err)
	}
}

func TestHostAndProfiles(t *testing.T) {
	t.Setenv("SECRET_OF_THE_AGENT", "hunter2")
	t.Setenv("HOME", "/root")
	a, _ := open(true)
	h, err := a.Host(t.Context())
	if err != nil || h.AgentID != "a1" || h.HostData.Environment["HOME"] != "/root" || h.HostData.Environment["SECRET_OF_THE_AGENT"] != "" || !strings.HasPrefix(h.HostData.OS, "linux") {
		t.Errorf("the host is %+v, %v", h, err)
	}
	for _, p := range []string{"heap", "goroutine", "cmdline"} {
		if out, err := a.Profile(t.Context(), &api.AgentProfileRequest{Profile: p, GC: 1}); err != nil || len(out.Payload) == 0 {
			t.Errorf("%s: %v", p, err)
		}
	}
}
