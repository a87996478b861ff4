package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// An agent that dies during a download leaves no process and downloads again; restarts of the task keep the files.
func TestArtifactsSurviveTheAgent(t *testing.T) {
	t.Parallel()
	a := kit.Start(t)
	var downloads atomic.Int32
	begun, release := make(chan struct{}, 9), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			return
		}
		if downloads.Add(1) == 1 {
			begun <- struct{}{}
			select {
			case <-release:
			case <-r.Context().Done():
				close(release)
				return
			}
		}
		_, _ = w.Write([]byte("content"))
	}))
	t.Cleanup(s.Close)
	job := kit.ShellJob("art", "cat local/in/f > local/seen; exec sleep 1000")
	task := job.TaskGroups[0].Tasks[0]
	task.Artifacts = []*api.TaskArtifact{{GetterSource: new(s.URL + "/${NOMAD_JOB_NAME}/f"), RelativeDest: new("local/in")}}
	a.Register(job)
	select {
	case <-begun:
	case <-time.After(20 * time.Second):
		t.Fatal("no download begins\n" + a.LogTail(20))
	}
	a.Kill()
	select {
	case <-release:
	case <-time.After(20 * time.Second):
		t.Fatal("the download runs on after the agent's death")
	}
	a.Launch()
	alloc := a.Running("art", 1)
	dir := fmt.Sprintf("%s/data/alloc/%s/%s/local", a.Dir, alloc.ID, task.Name)
	read := func() error {
		got, err := os.ReadFile(dir + "/seen")
		if err == nil && string(got) != "content" {
			err = fmt.Errorf("the task read %q", got)
		}
		return err
	}
	a.Until(10*time.Second, "the task reads its artifact", read)
	if err := os.Remove(dir + "/seen"); err != nil {
		t.Fatal(err)
	}
	if out, code := a.Run("alloc", "restart", alloc.ID); code != 0 {
		t.Fatal(out)
	}
	a.Until(10*time.Second, "the task reads its artifact again", read)
	if n := downloads.Load(); n != 2 {
		t.Errorf("%d downloads, want 2: one was interrupted", n)
	}

	job = kit.ShellJob("bad", "true")
	job.TaskGroups[0].Tasks[0].Artifacts = []*api.TaskArtifact{{GetterSource: new(s.URL + "/f"), GetterOptions: map[string]string{"checksum": "md5:" + strings.Repeat("0", 32)}}}
	job.TaskGroups[0].RestartPolicy = &api.RestartPolicy{Attempts: new(0), Mode: new("fail")}
	job.TaskGroups[0].ReschedulePolicy = &api.ReschedulePolicy{Attempts: new(0), Unlimited: new(false)}
	a.Register(job)
	a.Until(20*time.Second, "the download fails", func() error {
		failed := a.Allocs("bad", "failed")
		if len(failed) != 1 {
			return fmt.Errorf("%d failed allocations", len(failed))
		}
		out, _ := a.Run("alloc", "status", failed[0].ID)
		if !strings.Contains(out, "Failed Artifact Download") || !strings.Contains(out, "checksums did not match") {
			t.Fatal(out)
		}
		return nil
	})
}
