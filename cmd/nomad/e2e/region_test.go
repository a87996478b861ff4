package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// regions are two regions of one server and one client each, whose servers gossip with each other.
type regions struct {
	t            *testing.T
	lab          *kit.Lab
	server, node map[string]*kit.Host
}

func newRegions(t *testing.T) *regions {
	t.Helper()
	r := &regions{t: t, lab: kit.NewLab(t), server: map[string]*kit.Host{}, node: map[string]*kit.Host{}}
	names := []string{"east", "west"}
	for _, name := range names {
		r.server[name], r.node[name] = r.lab.Host("s-"+name), r.lab.Host("n-"+name)
	}
	for _, name := range names {
		r.server[name].Start(fmt.Sprintf(`
region = %q
server {
  enabled = true
  bootstrap_expect = 1
  server_join {
    retry_join = [%q]
    retry_interval = "1s"
  }
%s
}`, name, r.server["east"].IP, kit.Quick))
		r.node[name].Start(fmt.Sprintf(`
region = %q
client {
  enabled = true
  gc_interval = "1h"
  servers = ["%s:4647"]
}
plugin "raw_exec" {
  config {
    enabled = true
  }
}`, name, r.server[name].IP))
	}
	for _, name := range names {
		r.server[name].Ready(1)
		r.knows(r.server[name], "east", "west")
	}
	return r
}

// knows waits until an agent lists the regions.
func (r *regions) knows(a *kit.Host, want ...string) {
	r.t.Helper()
	a.Until(20*time.Second, "the regions", func() error {
		got, err := a.API.Regions().List()
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("%q", got)
		}
		return err
	})
}

// in is the client of an agent for a region.
func (r *regions) in(a *kit.Host, region string) *api.Client {
	r.t.Helper()
	c, err := api.NewClient(&api.Config{Address: a.API.Address(), Region: region, SecretID: kit.Token()})
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// TestRegions asks the servers and the client of one region about the other.
func TestRegions(t *testing.T) {
	t.Parallel()
	r := newRegions(t)
	for _, asked := range []*kit.Host{r.server["east"], r.node["east"]} {
		t.Run("through-"+asked.Name, func(t *testing.T) { r.t = t; r.walk(asked) })
	}
	t.Run("command-line", func(t *testing.T) { r.t = t; r.commands() })
	t.Run("node-in-the-wrong-region", func(t *testing.T) { r.t = t; r.stray() })
	t.Run("region-gone", func(t *testing.T) { r.t = t; r.gone() })
}

const talks = `echo hello from $NOMAD_REGION; echo data > local/file; exec sleep 1000`

// walk uses jobs, allocations and nodes of the west through an agent in the east.
func (r *regions) walk(asked *kit.Host) {
	t, west, home := r.t, r.in(asked, "west"), r.in(asked, "")
	id := "far-" + asked.Name
	job := kit.ShellJob(id, talks)
	if _, _, err := west.Jobs().Register(job, nil); err != nil {
		t.Fatalf("register in the west: %v", err)
	}
	stub := r.server["west"].Running(id, 1)
	if _, _, err := home.Jobs().Info(id, nil); err == nil {
		t.Error("the east knows a job of the west")
	}
	got, _, err := west.Jobs().Info(id, nil)
	if err != nil || *got.Region != "west" {
		t.Fatalf("job: %+v %v", got, err)
	}
	alloc, _, err := west.Allocations().Info(stub.ID, nil)
	if err != nil || alloc.NodeName != "n-west" {
		t.Fatalf("allocation: %+v %v", alloc, err)
	}
	r.onNode(west, alloc)
	r.streams(asked, id, alloc)
	nodes, _, err := west.Nodes().List(nil)
	if err != nil || len(nodes) != 1 || nodes[0].Name != "n-west" {
		t.Fatalf("nodes of the west: %+v %v", nodes, err)
	}
	if s, err := west.Nodes().Stats(nodes[0].ID, nil); err != nil || s.Memory.Total == 0 {
		t.Errorf("statistics of a node: %+v %v", s, err)
	}
	if _, err := west.Nodes().ToggleEligibility(nodes[0].ID, true, nil); err != nil {
		t.Errorf("eligibility: %v", err)
	}
	// A read that waits is woken by a write in the other region.
	_, meta, err := west.Jobs().Info(id, nil)
	if err != nil {
		t.Fatal(err)
	}
	woken := make(chan error, 1)
	go func() { // the job changes, too, when its deployment is over
		q := &api.QueryOptions{WaitIndex: meta.LastIndex, WaitTime: time.Minute}
		for {
			now, meta, err := west.Jobs().Info(id, q)
			switch {
			case err == nil && meta.LastIndex <= q.WaitIndex:
				err = errors.New("woken without a change")
			case err == nil && (now.Stop == nil || !*now.Stop):
				q.WaitIndex = meta.LastIndex
				continue
			}
			woken <- err
			return
		}
	}()
	if _, _, err := west.Jobs().Deregister(id, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := <-woken; err != nil {
		t.Errorf("the waiting read: %v", err)
	}
	if leader, err := west.Status().Leader(); err != nil || !strings.HasPrefix(leader, r.server["west"].IP) {
		t.Errorf("leader of the west: %q %v", leader, err)
	}
	_, _, err = r.in(asked, "mars").Jobs().List(nil)
	refused(t, err, 400, "No path to region")
	_, _, err = r.in(asked, "mars").Jobs().Register(kit.ShellJob("x", talks), nil)
	refused(t, err, 400, "No path to region")
	_, err = r.in(asked, "mars").Nodes().Stats(nodes[0].ID, nil)
	refused(t, err, 400, "No path to region")
	r.knows(asked, "east", "west")
}

// onNode makes the calls that go straight to the node of an allocation.
func (r *regions) onNode(west *api.Client, alloc *api.Allocation) {
	t := r.t
	t.Helper()
	cat := func(path string) (string, error) {
		body, err := west.AllocFS().Cat(alloc, path, nil)
		if err != nil {
			return "", err
		}
		defer body.Close()
		raw, err := io.ReadAll(body)
		return string(raw), err
	}
	r.server["west"].Until(10*time.Second, "the file of the far task", func() error {
		text, err := cat("main/local/file")
		if err == nil && text != "data\n" {
			err = fmt.Errorf("%q", text)
		}
		return err
	})
	if list, _, err := west.AllocFS().List(alloc, "main/local", nil); err != nil || len(list) != 1 || list[0].Name != "file" {
		t.Errorf("list: %+v %v", list, err)
	}
	stop := make(chan struct{})
	frames, errs := west.AllocFS().Logs(alloc, true, "main", "stdout", "start", 0, stop, nil)
	select {
	case f := <-frames:
		if string(f.Data) != "hello from west\n" {
			t.Errorf("logs: %q", f.Data)
		}
	case err := <-errs:
		t.Errorf("logs: %v", err)
	case <-time.After(30 * time.Second):
		t.Error("no logs")
	}
	close(stop)
	if s, err := west.Allocations().Stats(alloc, nil); err != nil || s.ResourceUsage == nil {
		t.Errorf("statistics: %+v %v", s, err)
	}
	if err := west.Allocations().Signal(alloc, nil, "main", "SIGCONT"); err != nil {
		t.Errorf("signal: %v", err)
	}
}

// streams follows events and the log of a server in the west, and runs a command there, through an agent in the east.
func (r *regions) streams(asked *kit.Host, job string, alloc *api.Allocation) {
	t := r.t
	t.Helper()
	west := r.in(asked, "west")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	events, err := west.EventStream().Stream(ctx, map[api.Topic][]string{api.TopicJob: {job}}, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	for found := false; !found; {
		line, open := <-events
		if !open || line.Err != nil {
			t.Fatalf("the events of the west ended: %+v", line)
		}
		for _, e := range line.Events {
			found = found || e.Key == job
		}
	}
	frames, errs := west.Agent().Monitor(ctx.Done(), &api.QueryOptions{Params: map[string]string{"server_id": "s-west.west", "log_level": "trace"}})
	select {
	case f := <-frames:
		if f == nil {
			t.Error("the log of the server in the west ended")
		}
	case err := <-errs:
		t.Errorf("the log of the server in the west: %v", err)
	}
	var out, problems bytes.Buffer
	code, err := west.Allocations().Exec(ctx, alloc, "main", false, []string{"/bin/sh", "-c", "echo in $NOMAD_REGION; exit 3"}, strings.NewReader(""), &out, &problems, nil, nil)
	if err != nil || code != 3 || out.String() != "in west\n" {
		t.Errorf("a command in the west: %d %q %q %v", code, out.String(), problems.String(), err)
	}
}

// commands uses the command line from the east.
func (r *regions) commands() {
	t, east := r.t, r.server["east"]
	run := func(args ...string) string {
		t.Helper()
		out, code := east.Run(args...)
		if code != 0 {
			t.Errorf("nomad %q: exit %d: %s", args, code, out)
		}
		return out
	}
	file := filepath.Join(r.lab.Dir, "far.hcl")
	text := "job \"far\" {\n region = \"west\"\n group \"g\" {\n  task \"main\" {\n   driver = \"raw_exec\"\n   config {\n    command = \"/bin/sh\"\n    args = [\"-c\", \"echo hello; exec sleep 1000\"]\n   }\n  }\n }\n}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := east.Run("job", "plan", file); code != 1 || !strings.Contains(out, "All tasks successfully allocated") {
		t.Errorf("job plan: exit %d: %s", code, out)
	}
	if out := run("job", "run", file); !strings.Contains(out, "complete") {
		t.Errorf("job run: %s", out)
	}
	alloc := r.server["west"].Running("far", 1)
	if out := run("alloc", "status", "-region", "west", alloc.ID); !strings.Contains(out, "n-west") {
		t.Errorf("alloc status: %s", out)
	}
	if out := run("alloc", "logs", "-region", "west", alloc.ID); !strings.Contains(out, "hello") {
		t.Errorf("alloc logs: %s", out)
	}
	if out := run("node", "status", "-region", "west"); !strings.Contains(out, "n-west") || strings.Contains(out, "n-east") {
		t.Errorf("node status: %s", out)
	}
	run("job", "stop", "-region", "west", "-detach", "far")
	near := strings.Replace(strings.Replace(text, " region = \"west\"\n", "", 1), "far", "near", 1)
	if err := os.WriteFile(file, []byte(near), 0o600); err != nil {
		t.Fatal(err)
	}
	run("job", "run", file)
	east.Running("near", 1)
	run("job", "stop", "-detach", "near")
	out := run("server", "members")
	for _, s := range []*kit.Host{east, r.server["west"]} {
		line := ""
		for l := range strings.Lines(out) {
			if strings.HasPrefix(l, s.Name+".") {
				line = l
			}
		}
		if !strings.Contains(line, "alive") || !strings.Contains(line, "true") {
			t.Errorf("server members about %s: %q in\n%s", s.Name, line, out)
		}
	}
	if out, code := east.Run("job", "status", "-region", "mars"); code == 0 || !strings.Contains(out, "No path to region") {
		t.Errorf("unknown region: exit %d: %s", code, out)
	}
	snap := filepath.Join(r.lab.Dir, "west.snap")
	run("operator", "snapshot", "save", "-region", "west", snap)
	run("operator", "snapshot", "inspect", snap)
}

// stray gives a node of the north the servers of the west.
func (r *regions) stray() {
	h := r.lab.Host("n-north")
	h.Start(fmt.Sprintf("region = \"north\"\nclient {\n enabled = true\n servers = [\"%s:4647\"]\n}", r.server["west"].IP))
	h.Until(10*time.Second, "the node to be told", func() error {
		if log := h.LogTail(100); !strings.Contains(log, "give the node servers of its own") {
			return fmt.Errorf("%s", log)
		}
		return nil
	})
	if nodes, _, err := r.server["west"].API.Nodes().List(nil); err != nil || len(nodes) != 1 {
		r.t.Errorf("nodes of the west: %d %v", len(nodes), err)
	}
	h.Kill9()
}

// gone takes the west away: the east says so at once and does all of its own.
func (r *regions) gone() {
	t, east := r.t, r.server["east"]
	r.server["west"].Kill9()
	began := time.Now()
	_, _, err := r.in(east, "west").Jobs().List(nil)
	if err == nil {
		t.Error("a dead region answers")
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("a dead region was told after %v: %v", took, err)
	}
	east.Register(kit.ShellJob("alone", "exec sleep 1000"))
	east.Running("alone", 1)
	r.server["west"].Restart()
	east.Until(20*time.Second, "the west to answer", func() error {
		_, _, err := r.in(east, "west").Jobs().List(nil)
		return err
	})
}
