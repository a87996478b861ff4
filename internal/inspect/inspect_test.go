package inspect_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
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

// exported reads a stored log to its end.
func exported(t *testing.T, a *inspect.Agent, r *api.AgentMonitorRequest) (string, error) {
	t.Helper()
	r.Wait = time.Second
	all := ""
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		out, err := a.Monitor(t.Context(), r)
		if err != nil {
			return all, err
		}
		all += string(out.Data)
		r.Session, r.Position = out.Session, out.Position
		if out.Done {
			return all, nil
		}
	}
	t.Fatal("the log does not end")
	return "", nil
}

func TestTheLogFileIsReadAsItWas(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nomad.log")
	text := strings.Repeat("a line of the log\n", 50_000)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	a := inspect.New(inspect.Config{LogFile: path})
	r := &api.AgentMonitorRequest{OnDisk: true}
	first, err := a.Monitor(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("another file"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.Session, r.Position = first.Session, first.Position
	if rest, err := exported(t, a, r); err != nil || string(first.Data)+rest != text {
		t.Errorf("read %d bytes of %d: %v", len(first.Data)+len(rest), len(text), err)
	}
}

// fakeJournal puts a program in the place of journalctl.
func fakeJournal(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "journalctl"), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func TestTheJournalIsReadAndFollowed(t *testing.T) {
	a := inspect.New(inspect.Config{})
	fakeJournal(t, `echo "$@"; head -c 3000000 /dev/zero | tr '\0' x`)
	text, err := exported(t, a, &api.AgentMonitorRequest{ServiceName: "nomad.service", LogsSince: time.Hour})
	if err != nil || len(text) < 3_000_000 || !strings.HasPrefix(text, "--unit=nomad.service --since=@") || strings.Contains(text, "--follow") {
		t.Errorf("read %d bytes, %.100q, %v", len(text), text, err)
	}
	fakeJournal(t, `echo "$@"; sleep 600`)
	if text := follow(t, a, &api.AgentMonitorRequest{ServiceName: "nomad", Follow: true, Wait: time.Second}, "short-iso"); !strings.Contains(text, "--follow") {
		t.Errorf("read %q", text)
	}
	fakeJournal(t, `echo no such journal >&2; exit 1`)
	if _, err := exported(t, a, &api.AgentMonitorRequest{ServiceName: "nomad"}); fault.Of(err) != fault.Unavailable || !strings.Contains(err.Error(), "no such journal") {
		t.Errorf("a program that fails: %v", err)
	}
	t.Setenv("PATH", "")
	if _, err := a.Monitor(t.Context(), &api.AgentMonitorRequest{ServiceName: "nomad"}); fault.Of(err) != fault.Unimplemented {
		t.Errorf("without journalctl: %v", err)
	}
}

func TestWhatAnExportRefuses(t *testing.T) {
	a := inspect.New(inspect.Config{LogFile: "/dev/null"})
	for text, r := range map[string]*api.AgentMonitorRequest{
		"Cannot target journald and nomad log file simultaneously": {OnDisk: true, ServiceName: "nomad"}, "Cannot follow log file": {OnDisk: true, Follow: true},
		"service name \"sshd\"": {ServiceName: "sshd"}, "service name \"--file=/nomad\"": {ServiceName: "--file=/nomad"}, "logs_since": {ServiceName: "nomad", LogsSince: -1},
		"not a regular file": {OnDisk: true},
	} {
		if _, err := a.Monitor(t.Context(), r); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("want %q, got %v", text, err)
		}
	}
	if _, err := inspect.New(inspect.Config{}).Monitor(t.Context(), &api.AgentMonitorRequest{OnDisk: true}); fault.Of(err) != fault.NotFound {
		t.Errorf("without a log file: %v", err)
	}
	if err := inspect.CheckExport(&api.AgentMonitorRequest{}); err == nil || !strings.Contains(err.Error(), "Either -service-name or -on-disk") {
		t.Errorf("got %v", err)
	}
}
