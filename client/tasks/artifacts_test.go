package tasks_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/artifacts"
)

// downloads records what tasks ask for.
type downloads struct {
	mu    sync.Mutex
	asked [][]artifacts.Artifact
	to    artifacts.Place
	err   error
	hangs bool
}

func (d *downloads) Fetch(ctx context.Context, to artifacts.Place, list []artifacts.Artifact) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked, d.to = append(d.asked, list), to
	if d.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return d.err
}

func withArtifact() *api.Task {
	return &api.Task{Name: "t", User: "${NOMAD_META_user}", Meta: map[string]string{"user": "daemon", "v": "1.2", "sum": "sha256:00"}, Artifacts: []*api.TaskArtifact{{
		GetterSource: "http://host/${NOMAD_META_v}", RelativeDest: "${NOMAD_TASK_DIR}/x", GetterMode: "file", GetterInsecure: true, Chown: true,
		GetterOptions: map[string]string{"checksum": "${NOMAD_META_sum}"}, GetterHeaders: map[string]string{"X-V": "v${NOMAD_META_v}"},
	}}}
}

func TestArtifactsAreDownloadedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "service", withArtifact())
		d := &downloads{}
		b.conf.Artifacts = d
		b.renew(t)
		ctx, cancel := context.WithCancel(t.Context())
		wait := b.run(ctx)
		b.until(t, "it runs", running("t"))
		local := b.conf.Dirs.Task("t").Local()
		want := artifacts.Artifact{
			Source: "http://host/1.2", Destination: local + "/x", Mode: "file", Insecure: true, Chown: true,
			Options: map[string]string{"checksum": "sha256:00"}, Headers: map[string]string{"X-V": "v1.2"},
		}
		if diff := cmp.Diff([][]artifacts.Artifact{{want}}, d.asked); diff != "" {
			t.Error(diff)
		}
		if d.to.User != "daemon" || d.to.Task != b.conf.Dirs.Task("t").Dir() || d.to.Shared != b.conf.Dirs.Shared() || !strings.HasPrefix(d.to.Scratch, b.conf.Dirs.Dir()+"/.made-") {
			t.Errorf("%+v", d.to)
		}
		if err := b.Restart(ctx, "t", false); err != nil {
			t.Fatal(err)
		}
		b.until(t, "it restarts", func(s map[string]*api.TaskState) bool {
			return s["t"].Restarts == 1 && s["t"].State == api.TaskStateRunning
		})
		cancel()
		_ = wait()
		b.renew(t) // a new agent process
		ctx, cancel = context.WithCancel(t.Context())
		wait = b.run(ctx)
		b.until(t, "it runs", running("t"))
		synctest.Wait()
		if err := b.Restart(ctx, "t", false); err != nil {
			t.Fatal(err)
		}
		b.until(t, "it restarts", func(s map[string]*api.TaskState) bool {
			return s["t"].Restarts == 2 && s["t"].State == api.TaskStateRunning
		})
		cancel()
		_ = wait()
		if len(d.asked) != 1 {
			t.Errorf("downloaded %d times", len(d.asked))
		}
		if got := events(b.States()["t"]); !slices.Contains(got, api.EventDownloadingArtifacts) {
			t.Errorf("events %v", got)
		}
	})
}

func TestFailedDownloadFollowsTheRestartPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "service", withArtifact())
		d := &downloads{err: fault.Wrap(fault.Unavailable, errors.New("failed to download artifact"))}
		b.conf.Artifacts = d
		b.renew(t)
		_ = b.run(t.Context())()
		s := b.States()["t"]
		if len(d.asked) != 2 || !s.Failed || s.Restarts != 1 { // the policy has one attempt
			t.Errorf("%d downloads, %+v", len(d.asked), s)
		}
		i := slices.Index(events(s), api.EventArtifactDownloadFailed)
		if i < 0 || s.Events[i].DownloadError != "failed to download artifact" || s.Events[i].Details["download_error"] != "failed to download artifact" {
			t.Errorf("events %v", fmt.Sprint(events(s)))
		}
	})
}

func TestStopEndsADownload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "service", withArtifact())
		b.conf.Artifacts = &downloads{hangs: true}
		b.renew(t)
		wait := b.run(t.Context())
		b.until(t, "it downloads", func(s map[string]*api.TaskState) bool {
			return slices.Contains(events(s["t"]), api.EventDownloadingArtifacts)
		})
		b.Stop()
		if err := wait(); err != nil {
			t.Fatal(err)
		}
		if s := b.States()["t"]; s.State != api.TaskStateDead || s.Failed {
			t.Errorf("%+v", s)
		}
	})
}
