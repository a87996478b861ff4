package docker_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/docker"
	"github.com/open-nomad/open-nomad/plugins/driver/docker/enginetest"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
)

func newRegistry(t *testing.T, private bool) *enginetest.Registry {
	t.Helper()
	r, err := enginetest.NewRegistry(engine(t).Program, private)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func imageTask(t *testing.T, n int, image string, keys map[string]any, args ...any) *driver.Task {
	t.Helper()
	c := taskConfig(keys, args...)
	c["image"] = image
	task := newTask(t, c)
	task.AllocID = fmt.Sprintf("%s-%d", task.AllocID, n)
	task.ID = task.AllocID + "/web/1"
	return task
}

// idOf is the id of the image of a name; empty when the engine does not have it.
func idOf(t *testing.T, image string) string {
	t.Helper()
	found, err := shared.Client.ImageInspect(bounded(t), image)
	if err != nil {
		return ""
	}
	return found.ID
}

func TestTagDecidesWhenAnImageIsPulled(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, false)
	d := newDriver(t, t.TempDir()+"/s", map[string]any{"gc": map[string]any{"image": false}})
	n := 0
	pulls := func(image string, keys map[string]any) int {
		t.Helper()
		before := r.Pulls()
		n++
		if x, out := run(t, d, imageTask(t, n, image, keys, "exit", "0")); !x.Successful() {
			t.Fatalf("exit %+v: %s", x, out)
		}
		return r.Pulls() - before
	}
	fixed := r.Add("app", "v1", "one")
	if got := pulls("https://"+fixed, nil); got == 0 {
		t.Error("an absent image is not pulled")
	}
	first := idOf(t, fixed)
	r.Add("app", "v1", "two")
	if got := pulls(fixed, nil); got != 0 || idOf(t, fixed) != first {
		t.Errorf("a present image is pulled: %d requests", got)
	}
	if got := pulls(fixed, map[string]any{"force_pull": true}); got == 0 || idOf(t, fixed) == first {
		t.Errorf("force_pull makes %d requests", got)
	}
	latest := r.Add("app", "latest", "three")
	for range 2 {
		if got := pulls(strings.TrimSuffix(latest, ":latest"), nil); got == 0 {
			t.Error("latest is not pulled each time")
		}
	}
}

func TestPullIsSharedAndReported(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, false)
	d := newDriver(t, t.TempDir()+"/s", nil)
	image := r.Add("app", "shared", "shared")
	release := r.Hold()
	defer release()
	var mu sync.Mutex
	var events []string
	var all sync.WaitGroup
	for i := range 3 {
		task := imageTask(t, i, image, nil, "sleep")
		task.Event = func(text string) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, text)
		}
		all.Go(func() {
			if _, err := d.Start(suite.Context(t), task); err != nil {
				t.Error(err)
			}
		})
		t.Cleanup(func() { _ = d.Destroy(bounded(t), task.ID) })
	}
	suite.Eventually(t, "all tasks report the download", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(events) == 3 && events[0] == "Downloading image"
	})
	ctx, cancel := context.WithCancel(suite.Context(t))
	leaves := imageTask(t, 9, image, nil, "sleep")
	leaves.Event = func(string) { cancel() }
	if _, err := d.Start(ctx, leaves); !errors.Is(err, context.Canceled) {
		t.Errorf("a task that is stopped meanwhile: %v", err)
	}
	release()
	all.Wait()
	if got := r.Pulls(); got > 2 {
		t.Errorf("%d requests for one pull", got)
	}
}

func TestPullsThatFailSayWhy(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, false)
	d := newDriver(t, t.TempDir()+"/s", nil)
	private := newRegistry(t, true)
	secret := private.Add("secret", "v1", "secret")
	auth := func(password string) map[string]any {
		return map[string]any{"auth": []any{map[string]any{"username": "user", "password": password, "server_address": private.Address}}}
	}
	for i, c := range []struct {
		image string
		keys  map[string]any
		text  string
		again bool
	}{
		{r.Address + "/none:v1", nil, "manifest unknown", false},
		{secret, nil, "no basic auth credentials", false},
		{secret, auth("wrong"), "unauthorized", false},
		{"127.0.0.1:1/none:v1", nil, "connection refused", true},
		{"UPPER:v1", nil, `image "UPPER:v1"`, false},
	} {
		_, err := d.Start(suite.Context(t), imageTask(t, i, c.image, c.keys, "sleep"))
		if err == nil || !strings.Contains(err.Error(), c.text) || driver.Recoverable(err) != c.again {
			t.Errorf("%s: %v (recoverable %v), want %q", c.image, err, driver.Recoverable(err), c.text)
		}
	}
	if x, out := run(t, d, imageTask(t, 20, secret, auth("secret"), "exit", "0")); !x.Successful() {
		t.Errorf("with the account: exit %+v: %s", x, out)
	}
	image := r.Add("slow", "v1", "slow")
	defer r.Hold()()
	hasty := newDriver(t, t.TempDir()+"/s", map[string]any{"pull_activity_timeout": "500ms"})
	_, err := hasty.Start(suite.Context(t), imageTask(t, 21, image, nil, "sleep"))
	if !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "pull_activity_timeout") {
		t.Errorf("a pull without progress: %v", err)
	}
	_, err = d.Start(suite.Context(t), imageTask(t, 22, image, map[string]any{"image_pull_timeout": "500ms"}, "sleep"))
	if !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "image_pull_timeout") {
		t.Errorf("a pull that takes too long: %v", err)
	}
}

func TestAccountsOfTheAgent(t *testing.T) { // not parallel: it changes PATH
	r := newRegistry(t, true)
	dir := t.TempDir()
	file, helper := dir+"/config.json", dir+"/docker-credential-test"
	pair := base64.StdEncoding.EncodeToString([]byte("user:secret"))
	text := fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, r.Address, pair)
	script := fmt.Sprintf("#!/bin/sh\nread server\n[ \"$server\" = %s ] || { echo credentials not found in native keychain; exit 1; }\necho '{\"Username\": \"user\", \"Secret\": \"secret\"}'\n", r.Address)
	broken := "#!/bin/sh\necho the keychain is locked >&2\nexit 1\n"
	if err := errors.Join(os.WriteFile(file, []byte(text), 0o600), os.WriteFile(helper, []byte(script), 0o700), os.WriteFile(dir+"/docker-credential-broken", []byte(broken), 0o700)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for i, auth := range []map[string]any{{"config": file}, {"helper": "test"}} {
		d := newDriver(t, t.TempDir()+"/s", map[string]any{"auth": auth})
		image := r.Add(fmt.Sprint("private", i), "v1", fmt.Sprint(i))
		if x, out := run(t, d, imageTask(t, i, image, nil, "exit", "0")); !x.Successful() {
			t.Errorf("%v: exit %+v: %s", auth, x, out)
		}
	}
	d := newDriver(t, t.TempDir()+"/s", map[string]any{"auth": map[string]any{"helper": "broken"}})
	image := newRegistry(t, false).Add("open", "v1", "open")
	if _, err := d.Start(suite.Context(t), imageTask(t, 8, image, nil, "sleep")); err == nil || !strings.Contains(err.Error(), "the keychain is locked") {
		t.Errorf("a helper that fails: %v", err)
	}
	if x, out := run(t, d, imageTask(t, 9, image, map[string]any{"auth_soft_fail": true}, "exit", "0")); !x.Successful() {
		t.Errorf("with auth_soft_fail: exit %+v: %s", x, out)
	}
}

func TestImagesAreLoadedFromTheTaskDirectory(t *testing.T) {
	t.Parallel()
	archive, err := enginetest.Archive("localhost/loaded:v1", engine(t).Program)
	if err != nil {
		t.Fatal(err)
	}
	d := newDriver(t, t.TempDir()+"/s", nil)
	start := func(n int, image, load string) (*docker.Driver, *driver.Task) {
		task := imageTask(t, n, image, map[string]any{"load": load}, "exit", "0")
		local := filepath.Join(task.Dir, "local")
		if err := errors.Join(os.MkdirAll(local, 0o777), os.WriteFile(local+"/image.tar", archive, 0o600), os.Symlink("/etc/passwd", local+"/link")); err != nil {
			t.Fatal(err)
		}
		return d, task
	}
	for i, c := range []struct{ image, load, text string }{
		{"localhost/other:v1", "image.tar", `has no image "localhost/other:v1"`},
		{"localhost/loaded:v1", "none.tar", "no such file"},
		{"localhost/loaded:v1", "link", "escapes"},
		{"localhost/loaded:v1", "../../x", "escapes"},
	} {
		d, task := start(i, c.image, c.load)
		if _, err := d.Start(suite.Context(t), task); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("load %q: %v, want %q", c.load, err, c.text)
		}
	}
	d, task := start(9, "localhost/loaded:v1", "image.tar")
	if x, out := run(t, d, task); !x.Successful() {
		t.Errorf("exit %+v: %s", x, out)
	}
}

func TestUnusedImagesAreCollected(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, false)
	d := newDriver(t, t.TempDir()+"/s", map[string]any{"gc": map[string]any{"image_delay": "300ms"}})
	image, same := r.Add("app", "gc", "gc"), r.Add("other", "gc", "gc")
	one, two := imageTask(t, 1, image, nil, "sleep"), imageTask(t, 2, same, nil, "sleep")
	start(t, d, one)
	start(t, d, two)
	if err := d.Destroy(suite.Context(t), one.ID); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second) // the delay of one, but two uses the image
	if idOf(t, image) == "" {
		t.Fatal("the image of a running task is removed")
	}
	if err := d.Destroy(suite.Context(t), two.ID); err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "the image is removed", func() bool { return idOf(t, image) == "" && idOf(t, same) == "" })
	if x, out := run(t, d, imageTask(t, 3, image, nil, "exit", "0")); !x.Successful() {
		t.Errorf("after the removal: exit %+v: %s", x, out)
	}
	// A name that has moved on is left alone.
	moves := r.Add("moves", "v1", "old")
	old := imageTask(t, 5, moves, nil, "sleep")
	start(t, d, old)
	first := idOf(t, moves)
	r.Add("moves", "v1", "new")
	fresh := imageTask(t, 6, moves, map[string]any{"force_pull": true}, "sleep")
	start(t, d, fresh)
	if err := d.Destroy(suite.Context(t), old.ID); err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "the old image is removed", func() bool { return idOf(t, first) == "" })
	if now := idOf(t, moves); now == "" || now == first {
		t.Errorf("the new image is %q, was %q", now, first)
	}
	keep := newDriver(t, t.TempDir()+"/s", map[string]any{"gc": map[string]any{"container": false, "image": false}})
	task := imageTask(t, 4, enginetest.Image, nil, "exit", "0")
	run(t, keep, task)
	if err := keep.Destroy(suite.Context(t), task.ID); err != nil || len(containers(t, task)) != 1 {
		t.Errorf("gc.container = false: %v, containers %v", err, containers(t, task))
	}
	next := *task
	next.ID = task.AllocID + "/web/2" // the next attempt has the same name
	if x, _ := run(t, keep, &next); !x.Successful() {
		t.Errorf("exit %+v", x)
	}
	for _, c := range append(containers(t, task), containers(t, &next)...) {
		_, _ = shared.Client.ContainerRemove(bounded(t), c, client.ContainerRemoveOptions{Force: true})
	}
}
