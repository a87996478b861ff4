package docker_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/docker/enginetest"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
)

// What an engine behind a proxy does with requests.
const (
	works int32 = iota
	// fails replies 500.
	fails
	// hangs replies only when it works again.
	hangs
	// mute does what a creation asks for, and never replies to it.
	mute
)

// behindProxy returns the shared engine by a socket of its own, with what it does with requests.
func behindProxy(t *testing.T) (*enginetest.Engine, *atomic.Int32) {
	t.Helper()
	e := *engine(t)
	mode := &atomic.Int32{}
	socket := strings.TrimPrefix(e.Host, "unix://")
	to := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "engine"})
	to.FlushInterval = -1
	to.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	dir, err := os.MkdirTemp("", "proxy")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	ends := make(chan struct{})
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for mode.Load() == hangs {
			select {
			case <-r.Context().Done():
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
		switch m := mode.Load(); {
		case m == fails:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write([]byte(`{"message": "the engine is out of order"}`))
		case m == mute && strings.HasSuffix(r.URL.Path, "/containers/create"):
			to.ServeHTTP(discarded{http.Header{}}, r.WithContext(context.WithoutCancel(r.Context())))
			select {
			case <-r.Context().Done():
			case <-ends:
			}
		default:
			to.ServeHTTP(w, r)
		}
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() {
		close(ends)
		_ = server.Close()
		_ = os.RemoveAll(dir)
	})
	e.Host = "unix://" + l.Addr().String()
	return &e, mode
}

// discarded is a response that no client receives.
type discarded struct{ header http.Header }

func (d discarded) Header() http.Header       { return d.header }
func (discarded) Write(b []byte) (int, error) { return len(b), nil }
func (discarded) WriteHeader(int)             {}

// nothingLeft fails unless no container of the tasks is left, nor a mount below the driver's directory, nor a cgroup of
// the containers, which also means that no process is.
func nothingLeft(t *testing.T, dir string, ids []string, tasks ...*driver.Task) {
	t.Helper()
	for _, task := range tasks {
		if left := containers(t, task); len(left) > 0 {
			t.Errorf("%s: containers %v are left", task.ID, left)
		}
	}
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(table), " "+dir+"/") {
		t.Errorf("mounts below %s are left:\n%s", dir, table)
	}
	for _, id := range ids {
		for _, pattern := range []string{"/sys/fs/cgroup/*/docker/" + id, "/sys/fs/cgroup/docker/" + id, "/sys/fs/cgroup/system.slice/docker-" + id + "*"} {
			if left, _ := filepath.Glob(pattern); len(left) > 0 {
				t.Errorf("cgroups %v are left", left)
			}
		}
	}
}

func soon(t *testing.T, limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

// An engine that fails or hangs makes the driver unhealthy; its tasks can be killed all the same, and starts leave nothing.
func TestEngineThatFailsOrHangs(t *testing.T) {
	t.Parallel()
	e, mode := behindProxy(t)
	dir := t.TempDir() + "/s"
	d := driverOf(t, e, dir, map[string]any{"gc": []any{map[string]any{"dangling_containers": []any{map[string]any{"period": "1s", "creation_grace": "0s"}}}}})
	if _, err := d.Fingerprint(t.Context()); err != nil {
		t.Fatal(err)
	}
	health := func() driver.Fingerprint {
		ch, err := d.Fingerprint(soon(t, time.Minute)) // the driver itself ends a question that is not answered
		if err != nil {
			t.Fatal(err)
		}
		return <-ch
	}
	task := func(name string) *driver.Task {
		task := newTask(t, taskConfig(map[string]any{"volumes": []any{"local:/bound"}}, "sleep"))
		task.AllocID, task.ID = "order-"+name, "order-"+name+"/web/1"
		return task
	}
	if f := health(); f.Health != driver.Healthy {
		t.Fatalf("health is %+v", f)
	}
	first, second, refused := task("first"), task("second"), task("refused")
	var ids []string
	processes := map[string]int{}
	for _, task := range []*driver.Task{first, second} {
		start(t, d, task)
		c, err := shared.Client.ContainerInspect(bounded(t), "web-"+task.AllocID, client.ContainerInspectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, c.Container.ID)
		processes[task.ID] = c.Container.State.Pid
	}
	for m, to := range map[int32]*driver.Task{fails: first, hangs: second} {
		mode.Store(m)
		if f := health(); f.Health != driver.Unhealthy || f.Description != "Failed to connect to docker daemon" {
			t.Errorf("mode %d: health is %+v", m, f)
		}
		if _, err := d.Start(soon(t, 2*time.Second), refused); err == nil || m == fails && !strings.Contains(err.Error(), "the engine is out of order") || m == hangs && !errors.Is(err, fault.Unavailable) {
			t.Errorf("mode %d: start: %v", m, err)
		}
		if err := d.Stop(soon(t, 2*time.Second), to.ID, "SIGKILL", 0); err == nil {
			t.Errorf("mode %d: a stop that the engine has not confirmed is no error", m)
		}
		suite.Eventually(t, "the process has ended without the engine", func() bool { return unix.Kill(processes[to.ID], 0) != nil })
	}

	mode.Store(mute)
	if _, err := d.Start(soon(t, 2*time.Second), refused); !errors.Is(err, fault.Unavailable) {
		t.Errorf("a creation that is not answered: %v", err)
	}
	mode.Store(works)
	if f := health(); f.Health != driver.Healthy {
		t.Errorf("health is %+v", f)
	}
	start(t, d, refused)
	for _, task := range []*driver.Task{first, refused} {
		if err := d.Destroy(suite.Context(t), task.ID); err != nil {
			t.Error(err)
		}
	}
	if _, err := d.Wait(suite.Context(t), second.ID); err != nil {
		t.Error(err)
	}
	mode.Store(fails)
	if err := d.Destroy(suite.Context(t), second.ID); err == nil {
		t.Error("a container was removed without the engine")
	}
	mode.Store(works)
	suite.Eventually(t, "the container that could not be removed is collected", func() bool { return len(containers(t, second)) == 0 })
	nothingLeft(t, dir, ids, first, second, refused)
}
