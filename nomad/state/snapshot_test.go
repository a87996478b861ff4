package state_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// full stores a row in every table.
func full(s *state.Store) {
	job := &api.Job{
		ID: "web", Namespace: "default", Type: "service", Version: 2,
		TaskGroups: []*api.TaskGroup{{Name: "g", Count: 2, Tasks: []*api.Task{{Name: "t", Config: map[string]any{"command": "sleep", "n": int64(3)}}}}},
	}
	version := *job
	write(s, 20, func(tx *state.Txn) {
		tx.PutNode(&api.Node{ID: "n1", Name: "one", Attributes: map[string]string{"a": "b"}})
		tx.PutJob(job)
		tx.PutJobVersion(&version)
		tx.PutJobSubmission("default", "web", 2, &api.JobSubmission{Source: "job {}", Format: "hcl2"})
		tx.PutEval(&api.Evaluation{ID: "e1", Namespace: "default", JobID: "web", Status: "pending"})
		tx.PutDeployment(&api.Deployment{ID: "d1", Namespace: "default", JobID: "web"})
		tx.PutVolume(&api.Volume{VolumeSpec: api.VolumeSpec{ID: "v1", Namespace: "default", PluginID: "p"}})
		tx.PutClaim(&api.VolumeClaim{Namespace: "default", VolumeID: "v1", AllocID: "a1", NodeID: "n1"})
		tx.PutAttachment(&api.VolumeAttachment{PluginID: "p", ExternalID: "x", NodeID: "n1"})
		count, eval := int64(2), "e1"
		tx.PutJobScaling(&api.JobScalingEvents{Namespace: "default", JobID: "web", Groups: map[string][]*api.ScalingEvent{
			"g": {{Count: &count, PreviousCount: 1, EvalID: &eval, Meta: map[string]any{"why": "load"}}, {Error: true, Message: "no"}},
		}})
		tx.PutLaunch("default", "web", time.Unix(1_800_000_000, 5))
		tx.PutNamespace(&api.Namespace{Name: "prod"})
		tx.PutNodePool(&api.NodePool{Name: "gpu"})
		tx.PutSchedulerConfig(&api.SchedulerConfiguration{SchedulerAlgorithm: "spread"})
	})
	write(s, 21, func(tx *state.Txn) {
		tx.PutAlloc(&api.Allocation{ID: "a1", Namespace: "default", JobID: "web", Job: job, TaskGroup: "g", NodeID: "n1", ClientStatus: "running"})
		tx.PutAlloc(&api.Allocation{ID: "a2", Namespace: "default", JobID: "web", Job: job, TaskGroup: "g", NodeID: "n1", ClientStatus: "pending"})
		tx.PutAlloc(&api.Allocation{ID: "a3", Namespace: "default", JobID: "gone", NodeID: "n2"})
	})
}

func dump(t *testing.T, s *state.Store) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := s.Read().Dump(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestSnapshotRoundTrip(t *testing.T) {
	s := newStore(t)
	full(s)
	to := newStore(t)
	write(to, 7, func(tx *state.Txn) { tx.PutNode(&api.Node{ID: "old"}) })
	w := to.Watch(state.NodeKey("n1"))
	defer w.Stop()
	feed := to.Feed(state.TableNodes)
	defer feed.Close()
	if _, err := feed.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := to.Restore(bytes.NewReader(dump(t, s))); err != nil {
		t.Fatal(err)
	}
	a, b := s.Read(), to.Read()
	for what, pair := range map[string][2]any{
		"index":      {a.Index(), b.Index()},
		"node":       {a.Node("n1"), b.Node("n1")},
		"job":        {a.Job("default", "web"), b.Job("default", "web")},
		"version":    {a.JobVersion("default", "web", 2), b.JobVersion("default", "web", 2)},
		"submission": {a.JobSubmission("default", "web", 2), b.JobSubmission("default", "web", 2)},
		"summary":    {a.JobSummary("default", "web"), b.JobSummary("default", "web")},
		"eval":       {a.Eval("e1"), b.Eval("e1")},
		"scaling":    {a.JobScaling("default", "web"), b.JobScaling("default", "web")},
		"launch":     {a.LastLaunch("default", "web"), b.LastLaunch("default", "web")},
		"alloc":      {a.Alloc("a1"), b.Alloc("a1")},
		"bare alloc": {a.Alloc("a3"), b.Alloc("a3")},
		"deployment": {a.Deployment("d1"), b.Deployment("d1")},
		"volume":     {a.Volume("default", "v1"), b.Volume("default", "v1")},
		"claim":      {a.Claim("default", "v1", "a1", ""), b.Claim("default", "v1", "a1", "")},
		"attachment": {a.Attachment("p", "x", "n1"), b.Attachment("p", "x", "n1")},
		"namespace":  {a.Namespace("prod"), b.Namespace("prod")},
		"pool":       {a.NodePool("gpu"), b.NodePool("gpu")},
		"config":     {a.SchedulerConfig(), b.SchedulerConfig()},
		"by node":    {len(slices.Collect(a.AllocsByNode("n1"))), len(slices.Collect(b.AllocsByNode("n1")))},
	} {
		if pair[0] == nil || !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s: %+v became %+v", what, pair[0], pair[1])
		}
	}
	for _, table := range []string{state.TableNodes, state.TableAllocs, state.TableConfig} {
		if a.TableIndex(table) != b.TableIndex(table) {
			t.Errorf("index of %s: %d became %d", table, a.TableIndex(table), b.TableIndex(table))
		}
	}
	if b.Node("old") != nil {
		t.Error("a row from before the restore is left")
	}
	if b.Alloc("a1").Job != b.Alloc("a2").Job {
		t.Error("allocations no longer share their job")
	}
	select {
	case <-w.C():
	default:
		t.Error("the restore woke nobody")
	}
	if batch, err := feed.Next(t.Context()); err != nil || !batch.Resync {
		t.Errorf("feed after the restore: %+v %v", batch, err)
	}
	if to.Touched(state.NodeAllocsKey("n1")) < 21 {
		t.Error("a blocking query would miss the restore")
	}
}

func TestDamagedSnapshotLeavesTheStateAlone(t *testing.T) {
	s := newStore(t)
	full(s)
	good := dump(t, s)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for i := range 300 {
		bad := slices.Clone(good)
		if i%3 == 0 {
			bad = bad[:rnd.IntN(len(bad))]
		} else {
			bad[rnd.IntN(len(bad))] ^= byte(1 + rnd.IntN(255))
		}
		to := newStore(t)
		write(to, 7, func(tx *state.Txn) { tx.PutNode(&api.Node{ID: "old"}) })
		if err := to.Restore(bytes.NewReader(bad)); err == nil {
			t.Fatalf("damaged snapshot %d was taken", i)
		}
		if to.Read().Node("old") == nil || to.Read().Index() != 7 {
			t.Fatalf("damaged snapshot %d changed the state", i)
		}
	}
	if err := newStore(t).Restore(bytes.NewReader([]byte("something else, long enough"))); !errors.Is(err, fault.Invalid) {
		t.Errorf("not a snapshot: %v", err)
	}
}

func TestWatchersNeverMissACommit(t *testing.T) {
	s := newStore(t)
	const writes = 2000
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	done := make(chan error, 4)
	for range cap(done) {
		go func() {
			done <- state.Until(ctx, s, []state.Key{state.NodeKey("n1")}, func(tx *state.Txn) bool {
				n := tx.Node("n1")
				return n != nil && n.Status == fmt.Sprint(writes-1)
			})
		}()
	}
	for i := range writes {
		write(s, uint64(10+i), func(tx *state.Txn) { tx.PutNode(&api.Node{ID: "n1", Status: fmt.Sprint(i)}) })
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

func TestTouchedIsNeverNewerThanARead(t *testing.T) {
	s := newStore(t)
	key := state.NodeAllocsKey("n1")
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		for i := range 2000 {
			write(s, uint64(10+i), func(tx *state.Txn) { tx.PutAlloc(&api.Allocation{ID: "a1", NodeID: "n1"}) })
		}
	}()
	for {
		touched := s.Touched(key)
		if now := s.Read(); now.Index() < touched {
			t.Fatalf("touched at %d, read at %d", touched, now.Index())
		}
		select {
		case <-stop:
			return
		default:
		}
	}
}

func TestSlowFeedIsAskedToResync(t *testing.T) {
	s := newStore(t)
	feed := s.Feed(state.TableNamespaces)
	defer feed.Close()
	if b, err := feed.Next(t.Context()); err != nil || !b.Resync {
		t.Fatalf("first batch %+v %v", b, err)
	}
	for i := range 17 {
		write(s, uint64(10+i), func(tx *state.Txn) {
			for j := range 1000 {
				tx.PutNamespace(&api.Namespace{Name: fmt.Sprintf("ns-%d-%d", i, j)})
			}
		})
	}
	if b, err := feed.Next(t.Context()); err != nil || !b.Resync || len(b.Changes) != 0 {
		t.Fatalf("late batch: resync %v, %d changes, %v", b.Resync, len(b.Changes), err)
	}
	write(s, 100, func(tx *state.Txn) { tx.DeleteNamespace("ns-0-0") })
	b, err := feed.Next(t.Context())
	if err != nil || b.Resync || len(b.Changes) != 1 || b.Changes[0].After != nil || b.Changes[0].Before == nil {
		t.Fatalf("batch after the resync: %+v %v", b, err)
	}
	feed.Close()
	if _, err := feed.Next(t.Context()); !errors.Is(err, fault.Unavailable) {
		t.Errorf("closed feed: %v", err)
	}
}

func TestRowThatNamesAGroupTwiceIsInItOnceAfterARestore(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	job := func(policies int) *api.Job {
		task := &api.Task{Name: "t"}
		for range policies {
			task.ScalingPolicies = append(task.ScalingPolicies, &api.ScalingPolicy{ID: "p", Type: "cpu"})
		}
		return &api.Job{Namespace: "default", ID: "j", TaskGroups: []*api.TaskGroup{{Name: "g", Tasks: []*api.Task{task}}}}
	}
	write(s, 10, func(tx *state.Txn) { tx.PutJob(job(2)) })
	if err := s.Restore(bytes.NewReader(dump(t, s))); err != nil {
		t.Fatal(err)
	}
	write(s, 11, func(tx *state.Txn) { tx.PutJob(job(1)) })
	write(s, 12, func(tx *state.Txn) { tx.DeleteJob("default", "j") })
	if j := s.Read().JobByPolicy("p"); j != nil {
		t.Errorf("job %s is deleted and found by its policy", j.ID)
	}
}
