package consensus_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm/archive"
	"github.com/open-nomad/open-nomad/nomad/fsm/consensus"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// leading opens a server and serves its terms until the test ends.
func leading(t testing.TB, dir string) (*consensus.Raft, *state.Store) {
	t.Helper()
	c, s := config(t, dir)
	return run(t, c), s
}

// run starts a server and waits until it leads.
func run(t testing.TB, c consensus.Config) *consensus.Raft {
	t.Helper()
	r, err := consensus.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	go func() { _ = r.Lead(t.Context(), func(ctx context.Context) error { <-ctx.Done(); return nil }) }()
	for until := time.Now().Add(30 * time.Second); !r.IsLeader(); {
		if time.Now().After(until) {
			t.Fatal("no leader in 20 s")
		}
		<-time.After(time.Millisecond)
	}
	return r
}

func saved(t testing.TB, r *consensus.Raft) ([]byte, archive.Meta) {
	t.Helper()
	var b bytes.Buffer
	m, err := r.SaveArchive(t.Context(), &b, false)
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), m
}

func TestArchiveRestores(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, s := leading(t, dir)
	propose(t, r, "one", "two")
	stored, m := saved(t, r)
	if got, err := archive.Inspect(t.Context(), bytes.NewReader(stored)); err != nil || got.Index != m.Index || got.Size != m.Size || len(got.Configuration) != 1 {
		t.Fatalf("inspect: %+v %v, want %+v", got, err, m)
	}
	propose(t, r, "three")
	if err := r.RestoreArchive(t.Context(), bytes.NewReader(stored), true); err != nil {
		t.Fatal(err)
	}
	check := func(s *state.Store, when string) {
		t.Helper()
		if tx := s.Read(); tx.Namespace("one") == nil || tx.Namespace("two") == nil || tx.Namespace("three") != nil {
			t.Errorf("%s: the state is not that of the archive", when)
		}
	}
	check(s, "after the restore")
	propose(t, r, "four")
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "restore-*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	_, s = leading(t, dir)
	check(s, "after a restart")
	if s.Read().Namespace("four") == nil {
		t.Error("a write after the restore is lost")
	}
}

func TestArchiveOfAnotherClusterKeepsThisOnesServers(t *testing.T) {
	t.Parallel()
	a, _ := leading(t, "")
	propose(t, a, "theirs")
	archive, _ := saved(t, a)
	b, s := leading(t, "")
	propose(t, b, "ours")
	before, _ := b.Configuration()
	if err := b.RestoreArchive(t.Context(), bytes.NewReader(archive), true); err != nil {
		t.Fatal(err)
	}
	after, err := b.Configuration()
	if err != nil || len(after.Servers) != 1 || after.Servers[0].Address != before.Servers[0].Address {
		t.Errorf("servers %+v %v", after, err)
	}
	if tx := s.Read(); tx.Namespace("theirs") == nil || tx.Namespace("ours") != nil {
		t.Error("the state is not that of the archive")
	}
}

// file is one part of an archive.
type file struct{ name, body string }

func unpacked(t *testing.T, archive []byte) (files []file) {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	pack := tar.NewReader(zip)
	for {
		h, err := pack.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(pack)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file{h.Name, string(b)})
	}
}

func packed(t *testing.T, files ...file) []byte {
	t.Helper()
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	pack := tar.NewWriter(zip)
	for _, f := range files {
		if err := pack.WriteHeader(&tar.Header{Name: f.name, Mode: 0o600, Size: int64(len(f.body))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(pack, f.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(pack.Close(), zip.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func flipped(b []byte, at int) []byte {
	b = bytes.Clone(b)
	b[at] ^= 0x40
	return b
}

// TestBrokenArchivesChangeNothing damages every part of an archive.
func TestBrokenArchivesChangeNothing(t *testing.T) {
	t.Parallel()
	r, s := leading(t, "")
	propose(t, r, "one")
	good, _ := saved(t, r)
	f := unpacked(t, good)
	meta, body, sums := f[0], f[1], f[2]
	newer := file{meta.name, strings.Replace(meta.body, `"Version": 1`, `"Version": 2`, 1)}
	cases := map[string][]byte{
		"empty":                 {},
		"no gzip":               []byte("jobs and more jobs"),
		"no meta":               packed(t, body, sums),
		"no state":              packed(t, meta, sums),
		"no sums":               packed(t, meta, body),
		"foreign":               packed(t, file{meta.name, `{"Version":1,"ID":"2-9-1"}`}, body, sums),
		"newer":                 packed(t, newer, body, sums),
		"meta is no JSON":       packed(t, file{meta.name, "{"}, body, sums),
		"meta changed":          packed(t, file{meta.name, strings.Replace(meta.body, `"Term": `, `"Term": 1`, 1)}, body, sums),
		"state changed":         packed(t, meta, file{body.name, string(flipped([]byte(body.body), len(body.body)/2))}, sums),
		"state cut":             packed(t, meta, file{body.name, body.body[:len(body.body)-3]}, sums),
		"sums changed":          packed(t, meta, body, file{sums.name, strings.Replace(sums.body, "a", "b", 1)}),
		"more":                  packed(t, meta, body, sums, file{"more", "x"}),
		"rubbish behind":        append(bytes.Clone(good), "rubbish"...),
		"name with a directory": packed(t, file{"../meta.json", meta.body}, body, sums),
	}
	for _, n := range []int{1, 9, len(good) / 2, len(good) - 9, len(good) - 1} {
		cases[fmt.Sprintf("cut at %d", n)] = good[:n]
	}
	for n := 10; n < len(good); n += len(good) / 8 {
		if b := flipped(good, n); inflated(b) != inflated(good) {
			cases[fmt.Sprintf("flipped at %d", n)] = b
		}
	}
	propose(t, r, "two")
	index := s.Read().Index()
	for name, b := range cases {
		err := r.RestoreArchive(t.Context(), bytes.NewReader(b), true)
		if !errors.Is(err, fault.Invalid) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s.Read().Index() != index || s.Read().Namespace("two") == nil {
		t.Error("a refused archive changed the state")
	}
	propose(t, r, "three")
}

// inflated is what is packed in b, or "" where it is broken. Some bits of a packed text mean nothing.
func inflated(b []byte) string {
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return ""
	}
	text, err := io.ReadAll(z)
	if err != nil {
		return ""
	}
	return string(text)
}

func TestOnlyTheLeaderRestores(t *testing.T) {
	t.Parallel()
	r, _ := leading(t, "")
	archive, _ := saved(t, r)
	c, _ := config(t, "")
	c.Single = false
	follower, err := consensus.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	defer follower.Close()
	if err := follower.RestoreArchive(t.Context(), bytes.NewReader(archive), true); !errors.Is(err, fault.NotLeader) {
		t.Fatalf("restore without a leader: %v", err)
	}
	if _, err := follower.SaveArchive(t.Context(), io.Discard, false); err != nil {
		t.Fatalf("a stale snapshot: %v", err)
	}
}

// TestDamagedLogIsRefusedAtTheStart changes bytes of an entry on the disk.
func TestDamagedLogIsRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, _ := leading(t, dir)
	propose(t, r, "first-entry", "damaged-entry", "later-entry", "last-entry")
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	segments, err := filepath.Glob(filepath.Join(dir, "wal", "*.wal"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("segments %q %v", segments, err)
	}
	b, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(b, []byte("damaged-entry"))
	if at < 0 {
		t.Fatal("the entry is not in the log file")
	}
	if err := os.WriteFile(segments[0], flipped(b, at), 0o600); err != nil {
		t.Fatal(err)
	}
	c, _ := config(t, dir)
	_, err = consensus.Open(c)
	if err == nil {
		t.Fatal("a damaged log was opened")
	}
	for _, want := range []string{"entry ", dir, "move ", "restore a snapshot"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("more than one line: %v", err)
	}
}

// BenchmarkArchive prints what 100,000 allocations with resources, metrics and events cost.
func BenchmarkArchive(b *testing.B) {
	r, s := leading(b, "")
	fillAllocs(s, 100_000)
	archive, _ := saved(b, r)
	b.Run("save", func(b *testing.B) {
		for b.Loop() {
			var w bytes.Buffer
			m, err := r.SaveArchive(b.Context(), &w, false)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(w.Len())/1e6, "MB-saved")
			b.ReportMetric(float64(m.Size)/1e6, "MB-uncompressed")
		}
	})
	b.Run("restore", func(b *testing.B) {
		for b.Loop() {
			if err := r.RestoreArchive(b.Context(), bytes.NewReader(archive), true); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func fillAllocs(s *state.Store, n int) {
	tx := s.Write(s.Read().Index()+1, time.Now())
	var job *api.Job
	for i := range n {
		if i%100 == 0 {
			job = &api.Job{
				ID: fmt.Sprintf("job-%d", i/100), Name: "job", Namespace: api.DefaultNamespace, Type: "service", Datacenters: []string{"*"},
				TaskGroups: []*api.TaskGroup{{Name: "web", Count: 100, Tasks: []*api.Task{{Name: "server", Driver: "exec", Config: map[string]any{"command": "/bin/server"}}}}},
			}
			tx.PutJob(job)
		}
		id := fmt.Sprintf("%08x-%04x-4000-8000-%012x", uint32(i)*2654435761, i&0xffff, uint64(i)*11400714819323198485>>16)
		node := fmt.Sprintf("node-%d", i%1000)
		tx.PutAlloc(&api.Allocation{
			AllocatedResources: &api.AllocatedResources{
				Tasks:  map[string]*api.AllocatedTaskResources{"server": {Cpu: api.AllocatedCpuResources{CpuShares: 50}, Memory: api.AllocatedMemoryResources{MemoryMB: 50}}},
				Shared: api.AllocatedSharedResources{DiskMB: 10},
			},
			Metrics: &api.AllocationMetric{
				NodesEvaluated: 1000, NodesInPool: 1000, NodePool: "default", NodesAvailable: map[string]int{"dc-1": 500, "dc-2": 500},
				ScoreMetaData: []*api.NodeScoreMeta{
					{NodeID: node, NormScore: float64(i%97) / 97, Scores: map[string]float64{"binpack": float64(i%97) / 97, "job-anti-affinity": 0, "node-affinity": 0, "node-reschedule-penalty": 0}},
					{NodeID: "node-0", NormScore: float64(i%89) / 89, Scores: map[string]float64{"binpack": float64(i%89) / 89, "job-anti-affinity": 0, "node-affinity": 0, "node-reschedule-penalty": 0}},
				},
			},
			ID: id, EvalID: id, Name: fmt.Sprintf("%s.web[%d]", job.ID, i%100), Namespace: job.Namespace, JobID: job.ID, Job: job, TaskGroup: "web",
			NodeID: node, NodeName: fmt.Sprintf("host-%d", i%1000), DesiredStatus: "run", ClientStatus: "running",
			TaskStates: map[string]*api.TaskState{"server": {State: "running", Events: []*api.TaskEvent{{Type: "Received", Time: int64(i)}, {Type: "Task Setup", Time: int64(i)}, {Type: "Started", Time: int64(i)}}}},
		})
	}
	tx.Commit()
}

const secret = "very secret words"

// putSecrets writes rows of all kinds that have secrets.
func putSecrets(tx *state.Txn) {
	flags := &api.MountOptions{MountFlags: []string{secret}}
	words := map[string]string{"k": secret}
	tx.PutNode(&api.Node{ID: "n", Name: "n", SecretID: secret})
	tx.PutVolume(&api.Volume{
		VolumeSpec: api.VolumeSpec{ID: "v", Namespace: "default", Secrets: words, MountOptions: flags},
		Provision: api.VolumeProvision{
			IntentSecrets: words, FormerSecrets: words, Replaces: &api.VolumeSpec{Secrets: words, MountOptions: flags},
		},
	})
	tx.PutAttachment(&api.VolumeAttachment{PluginID: "p", ExternalID: "e", NodeID: "n", Secrets: words, PublishContext: words, MountOptions: flags})
	tx.PutClaim(&api.VolumeClaim{Namespace: "default", VolumeID: "v", AllocID: "a", NodeID: "n", MountOptions: flags})
	tx.PutSnapshotIntent(&api.SnapshotIntent{PluginID: "p", Name: "s", Secrets: words})
}

func unzipped(t *testing.T, body []byte) []byte {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(zip)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

func TestRedactedSnapshotIsNotRestored(t *testing.T) {
	t.Parallel()
	r, _ := leading(t, t.TempDir())
	propose(t, r, "secrets")
	state := func(redacted bool) (whole, plain []byte) {
		t.Helper()
		var b bytes.Buffer
		if _, err := r.SaveArchive(t.Context(), &b, redacted); err != nil {
			t.Fatal(err)
		}
		return b.Bytes(), unzipped(t, b.Bytes())
	}
	if _, plain := state(false); bytes.Count(plain, []byte(secret)) != 12 {
		t.Error("the whole snapshot lacks secrets: nothing is shown")
	}
	body, plain := state(true)
	if bytes.Contains(plain, []byte(secret)) {
		t.Error("a secret is in the redacted snapshot")
	}
	if m, err := archive.Inspect(t.Context(), bytes.NewReader(body)); err != nil || !m.Redacted {
		t.Errorf("inspected %+v %v", m, err)
	}
	whole, _ := state(false)
	var later bytes.Buffer
	if err := archive.Redact(t.Context(), bytes.NewReader(whole), &later); err != nil {
		t.Fatal(err)
	}
	before, _ := archive.Inspect(t.Context(), bytes.NewReader(whole))
	if m, err := archive.Inspect(t.Context(), bytes.NewReader(later.Bytes())); err != nil || !m.Redacted || m.ID != before.ID || m.Index != before.Index {
		t.Errorf("redacted later: %+v %v, was %+v", m, err, before)
	}
	if plain := unzipped(t, later.Bytes()); bytes.Contains(plain, []byte(secret)) || !bytes.Contains(plain, []byte("MountFlags")) {
		t.Error("a secret is in the snapshot that was redacted later")
	}
	if err := archive.Redact(t.Context(), bytes.NewReader(whole[:len(whole)/2]), io.Discard); !errors.Is(err, fault.Invalid) {
		t.Errorf("half a snapshot: %v", err)
	}
	if err := r.RestoreArchive(t.Context(), bytes.NewReader(body), true); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "redacted") {
		t.Errorf("restored: %v", err)
	}
}
