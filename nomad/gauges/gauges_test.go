package gauges_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/metrics"
	"github.com/open-nomad/open-nomad/nomad/gauges"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// stateWith is a state that a transaction has changed.
func stateWith(change func(*state.Txn)) *state.Store {
	s := state.New()
	tx := s.Write(10, time.Unix(1000, 0))
	change(tx)
	tx.Commit()
	return s
}

// collected are the gauges by name and labels.
type collected map[string]float64

func (c collected) emit(name string, value float64, labels ...metrics.Label) {
	for _, l := range labels {
		name += " " + l.Name + "=" + l.Value
	}
	c[name] = value
}

func (c collected) want(t *testing.T, want map[string]float64) {
	t.Helper()
	for name, v := range want {
		if got, ok := c[name]; !ok || got != v {
			t.Errorf("%s is %v (%v), not %v; there are\n%s", name, got, ok, v, strings.Join(slices.Sorted(maps.Keys(c)), "\n"))
		}
	}
}

func job(id string) *api.Job {
	return &api.Job{ID: id, Namespace: "default", Type: "batch", Status: api.JobStatusRunning, TaskGroups: []*api.TaskGroup{{Name: "g"}}}
}

func TestAllocationsAreCountedByJobAndChildrenByParent(t *testing.T) {
	t.Parallel()
	s := stateWith(func(tx *state.Txn) {
		for _, id := range []string{"web", "etl/dispatch-1-a", "cron/periodic-9"} {
			j := job(id)
			tx.PutJob(j)
			tx.PutAlloc(&api.Allocation{ID: "a-" + id, Namespace: "default", JobID: id, Job: j, TaskGroup: "g", ClientStatus: api.AllocClientStatusRunning})
		}
	})
	got := collected{}
	gauges.Jobs(s.Read(), got.emit, false)
	got.want(t, map[string]float64{
		"nomad.job_status.running": 3, "nomad.job_status.dead": 0,
		"nomad.job_summary.running job=web namespace=default task_group=g":                 1,
		"nomad.job_summary.lost job=web namespace=default task_group=g":                    0,
		"nomad.job_summary.running job=etl namespace=default dispatch_id=1-a task_group=g": 1,
		"nomad.job_summary.running job=cron namespace=default periodic_id=9 task_group=g":  1,
	})
	got = collected{}
	gauges.Jobs(s.Read(), got.emit, true)
	for name := range got {
		if strings.Contains(name, "dispatch_id") {
			t.Errorf("%s of an instance is reported", name)
		}
	}
}

func TestVolumesThatStayOnTheirWayAreStuck(t *testing.T) {
	t.Parallel()
	now := time.Unix(100_000, 0)
	ago := func(d time.Duration) int64 { return now.Add(-d).UnixNano() }
	s := stateWith(func(tx *state.Txn) {
		claim := func(volume string, st api.ClaimState, since time.Duration) {
			tx.PutVolume(&api.Volume{
				VolumeSpec: api.VolumeSpec{ID: volume, Namespace: "default", PluginID: "ebs"}, Provision: api.VolumeProvision{State: api.VolumeAvailable, ExternalID: volume},
			})
			tx.PutClaim(&api.VolumeClaim{Namespace: "default", VolumeID: volume, AllocID: "a" + volume, PluginID: "ebs", ExternalID: volume, State: st, Since: ago(since)})
		}
		claim("used", api.ClaimReady, time.Hour)
		claim("waits", api.ClaimWaiting, time.Hour)
		claim("quick", api.ClaimReleasing, time.Minute)
		claim("stuck", api.ClaimReleasing, 10*time.Minute)
		tx.PutAttachment(&api.VolumeAttachment{PluginID: "ebs", ExternalID: "stuck", NodeID: "n", State: api.AttachmentUnpublishing, Since: ago(9 * time.Minute)})
		tx.PutAttachment(&api.VolumeAttachment{PluginID: "ebs", ExternalID: "used", NodeID: "n", State: api.AttachmentWrittenOff, Since: ago(time.Hour)})
	})
	got := collected{}
	gauges.Volumes(s.Read(), now, got.emit)
	got.want(t, map[string]float64{
		"nomad.volumes.stuck plugin=ebs": 1, "nomad.volumes.volumes plugin=ebs state=available": 4,
		"nomad.volumes.claims plugin=ebs state=releasing": 2, "nomad.volumes.claims_oldest_seconds plugin=ebs state=releasing": 600,
		"nomad.volumes.attachments plugin=ebs state=unpublishing": 1, "nomad.volumes.attachments plugin=ebs state=written off": 1,
	})
}

func TestPluginsAreCountedOnReadyNodes(t *testing.T) {
	t.Parallel()
	s := stateWith(func(tx *state.Txn) {
		for id, healthy := range map[string]bool{"n1": true, "n2": false} {
			tx.PutNode(&api.Node{ID: id, Status: api.NodeStatusReady, SchedulingEligibility: "eligible", CSINodePlugins: map[string]*api.CSIInfo{"ebs": {PluginID: "ebs", Healthy: healthy}}})
		}
		tx.PutNode(&api.Node{ID: "n3", Status: api.NodeStatusDown, CSINodePlugins: map[string]*api.CSIInfo{"ebs": {PluginID: "ebs", Healthy: true}}})
	})
	got := collected{}
	gauges.Plugins(s.Read(), got.emit)
	gauges.Nodes(s.Read(), got.emit)
	got.want(t, map[string]float64{
		"nomad.volumes.plugin_instances plugin=ebs type=node": 2, "nomad.volumes.plugin_instances_healthy plugin=ebs type=node": 1,
		"nomad.nodes status=ready eligibility=eligible": 2, "nomad.nodes status=down eligibility=": 1,
	})
}

// BenchmarkScrape reads all that the state amounts to, with 50,000 allocations of 1,000 jobs and 1,000 volumes, in the
// formats of Prometheus and JSON.
func BenchmarkScrape(b *testing.B) {
	const jobs, each = 1000, 50
	s := stateWith(func(tx *state.Txn) {
		for i := range jobs {
			j := job(fmt.Sprint("job-", i))
			tx.PutJob(j)
			for n := range each {
				tx.PutAlloc(&api.Allocation{ID: fmt.Sprintf("%08d-%d", i, n), Namespace: "default", JobID: j.ID, Job: j, TaskGroup: "g", NodeID: fmt.Sprint("node-", n), ClientStatus: api.AllocClientStatusRunning})
			}
			id := fmt.Sprint("v", i)
			tx.PutVolume(&api.Volume{VolumeSpec: api.VolumeSpec{ID: id, Namespace: "default", PluginID: "ebs"}, Provision: api.VolumeProvision{State: api.VolumeAvailable, ExternalID: id}})
			tx.PutClaim(&api.VolumeClaim{Namespace: "default", VolumeID: id, AllocID: id, PluginID: "ebs", ExternalID: id, State: api.ClaimReady, Since: 1})
		}
	})
	r, err := metrics.New(metrics.Config{Host: "server-1", Prometheus: true})
	if err != nil {
		b.Fatal(err)
	}
	r.Read(func(emit metrics.Emit) {
		tx := s.Read()
		gauges.Jobs(tx, emit, false)
		gauges.Nodes(tx, emit)
		gauges.Volumes(tx, time.Now(), emit)
		gauges.Plugins(tx, emit)
	})
	report := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N), "ms/scrape")
	}
	b.Run("prometheus", func(b *testing.B) {
		h, req := r.Prometheus(), httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/", nil)
		for b.Loop() {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, req)
			if w.Code != http.StatusOK {
				b.Fatal(w.Body)
			}
		}
		report(b)
	})
	b.Run("json", func(b *testing.B) {
		for b.Loop() {
			if _, err := r.Summary(); err != nil {
				b.Fatal(err)
			}
		}
		report(b)
	})
}
