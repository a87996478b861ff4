package consensus_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm/consensus"
	"github.com/open-nomad/open-nomad/nomad/fsm/recovery"
)

// poisoned is the directory of a server that an entry ended for good; bad is its index. "before" and "after" stand
// around it.
func poisoned(t *testing.T) (dir string, bad uint64) {
	t.Helper()
	dir = t.TempDir()
	c, _ := config(t, dir)
	c.SnapshotThreshold = 1 << 30
	r, err := consensus.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	lead(t, r)
	propose(t, r, "before")
	if _, err := r.Propose(t.Context(), &mark{"panic"}); err == nil {
		t.Fatal("the entry was applied")
	}
	<-r.Failed()
	got, _ := r.Propose(t.Context(), &mark{"after"}) // it is in the log, and not applied any more
	_ = got
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	out := recovered(t, recovery.Plan{Dir: dir})
	if out.Bad == 0 || out.Why == nil || !strings.Contains(out.Why.Error(), "panicked") || out.Backup != "" || out.Last <= out.Bad {
		t.Fatalf("the log says %+v", out)
	}
	return dir, out.Bad
}

func recovered(t *testing.T, r recovery.Plan) *recovery.Result {
	t.Helper()
	r.ID, r.Registry, r.Now, r.Log = "s1", registry(), time.Unix(1_700_000_000, 0), hclog.NewNullLogger()
	out, err := recovery.Run(r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// restarted leads again and has applied all of its log.
func restarted(t *testing.T, dir string) (*consensus.Raft, func(string) bool) {
	t.Helper()
	r, s := open(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = r.Lead(ctx, func(ctx context.Context) error { <-ctx.Done(); return nil })
	}()
	t.Cleanup(func() { cancel(); <-done })
	until(t, "it leads", r.IsLeader)
	return r, func(name string) bool { return s.Read().Namespace(name) != nil }
}

func TestAServerStartsWithoutTheEntryThatEndedIt(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		how   func(bad uint64) recovery.Plan
		after bool
	}{
		"skipped": {func(bad uint64) recovery.Plan { return recovery.Plan{Skip: bad} }, true},
		"cut":     {func(bad uint64) recovery.Plan { return recovery.Plan{Cut: bad} }, false},
	} {
		dir, bad := poisoned(t)
		how := c.how(bad)
		how.Dir = dir
		out := recovered(t, how)
		if out.Bad != 0 || out.Backup == "" {
			t.Fatalf("%s: %+v", what, out)
		}
		if again := recovered(t, recovery.Plan{Dir: out.Backup}); again.Bad != bad {
			t.Errorf("%s: the copy is not what it was: %+v", what, again)
		}
		r, has := restarted(t, dir)
		if !has("before") || has("panic") || has("after") != c.after {
			t.Errorf("%s: before %v, after %v", what, has("before"), has("after"))
		}
		propose(t, r, "new")
	}
}

func TestAServerThatIsLeftAloneLeadsWithNewPeers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c, _ := config(t, dir)
	c.Single = false
	r, err := consensus.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Bootstrap([]api.RaftServer{{ID: "s1", Address: c.Advertise}, {ID: "s2", Address: "127.0.0.1:1"}, {ID: "s3", Address: "127.0.0.1:2"}}); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	out := recovered(t, recovery.Plan{Dir: dir, Peers: []api.RaftServer{{ID: "s1", Address: c.Advertise, Voter: true}}})
	if out.Backup == "" {
		t.Errorf("%+v", out)
	}
	r, _ = restarted(t, dir)
	conf, err := r.Configuration()
	if err != nil || len(conf.Servers) != 1 || conf.Servers[0].ID != "s1" {
		t.Errorf("%+v %v", conf, err)
	}
	propose(t, r, "alone")
}

func TestALogInUseAndOneThatIsNoneAreNotRecovered(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, _ := open(t, dir)
	lead(t, r)
	for _, skip := range []uint64{0, 1} {
		_, err := recovery.Run(recovery.Plan{Dir: dir, ID: "s1", Registry: registry(), Skip: skip, Now: time.Now(), Log: hclog.NewNullLogger()})
		if !errors.Is(err, fault.Conflict) {
			t.Errorf("while it is in use: %v", err)
		}
	}
	if _, err := recovery.Run(recovery.Plan{Dir: t.TempDir(), Registry: registry(), Log: hclog.NewNullLogger()}); !errors.Is(err, fault.NotFound) {
		t.Errorf("an empty directory: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := recovery.Run(recovery.Plan{Dir: dir, ID: "s1", Registry: registry(), Cut: 1 << 40, Now: time.Now(), Log: hclog.NewNullLogger()})
	if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "no entry") {
		t.Errorf("an entry that is not there: %v", err)
	}
	if left, _ := filepath.Glob(dir + ".backup-*"); len(left) > 0 {
		for _, l := range left {
			_ = os.RemoveAll(l)
		}
	}
}
