package escape

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// Bounds of what is asked at once, and of each answer.
const (
	connections = 24
	askMax      = 2 * time.Second
	answerMax   = 1 << 20
)

// watch asks the agent about the files of hostile tasks, all the time and in all ways, over few connections.
type watch struct {
	*bed
	client *http.Client
	shadow []byte
	asked  atomic.Int64

	mu     sync.Mutex
	allocs map[string][]string
	// looks is how often was looked, lived how often there was an allocation of a kind.
	looks int
	lived map[string]int
}

func newWatch(b *bed) *watch {
	shadow, _ := os.ReadFile("/etc/shadow")
	if len(shadow) < 8 {
		shadow = nil
	}
	return &watch{
		bed: b, shadow: shadow, lived: map[string]int{},
		client: &http.Client{Transport: &http.Transport{MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections}},
	}
}

// run asks until ctx ends.
func (w *watch) run(ctx context.Context) {
	var all sync.WaitGroup
	loop := func(pause time.Duration, do func()) {
		all.Go(func() {
			tick := time.NewTicker(pause)
			defer tick.Stop()
			for ctx.Err() == nil {
				do()
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
			}
		})
	}
	loop(300*time.Millisecond, w.look)
	for _, verb := range []string{"ls", "stat", "cat", "readat", "stream"} {
		loop(time.Millisecond, func() { w.files(ctx, verb) })
	}
	for range 4 {
		loop(time.Millisecond, func() { w.races(ctx) })
	}
	for _, follow := range []string{"false", "true"} {
		loop(time.Millisecond, func() { w.logs(ctx, follow) })
	}
	loop(100*time.Millisecond, func() {
		for _, id := range w.all() {
			w.get(ctx, "/v1/client/allocation/"+id+"/stats", nil)
		}
		w.get(ctx, "/v1/client/stats", nil)
	})
	loop(700*time.Millisecond, func() {
		for _, id := range w.all() {
			w.put(ctx, "/v1/client/allocation/"+id+"/restart", `{"TaskName":"web"}`)
		}
	})
	loop(300*time.Millisecond, func() {
		w.put(ctx, "/v1/system/gc", "")
		w.get(ctx, "/v1/client/gc", nil)
		for _, id := range w.all() {
			w.get(ctx, "/v1/client/allocation/"+id+"/gc", nil)
		}
	})
	all.Wait()
	w.client.CloseIdleConnections()
}

// look finds out which allocations there are, and has those that failed placed again.
func (w *watch) look() {
	jobs := w.running()
	for kind := range kinds {
		if len(jobs[kind]) == 0 {
			_, _, _ = w.API.Jobs().EvaluateWithOpts(kind, api.EvalOptions{ForceReschedule: true}, nil)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.allocs = jobs
	w.looks++
	for kind := range jobs {
		w.lived[kind]++
	}
}

// shares is for which part of the time each kind had an allocation.
func (w *watch) shares() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string]int{}
	for kind := range kinds {
		out[kind] = 100 * w.lived[kind] / max(w.looks, 1)
	}
	return out
}

// present are the allocations by kind.
func (w *watch) present() map[string][]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.allocs
}

// all are the allocations of all kinds.
func (w *watch) all() []string { return slices.Concat(slices.Collect(maps.Values(w.present()))...) }

// places are there in every allocation.
var places = []string{
	"/", "alloc", "alloc/data", "alloc/logs", "web", "web/local", "web/secrets", "web/secrets/s", "web/tmp", "web/tmp/s", "web/local/f", "hostile/local",
	"../../../../etc/shadow", "alloc/logs/web.stdout.1",
}

// paths are what the attacks of a kind make.
var paths = map[string][]string{
	"links": {
		"alloc/data/root/etc/shadow", "alloc/data/up/etc/shadow", "alloc/data/victim/secret", "alloc/data/secret", "alloc/data/shadow", "alloc/data/relative",
		"alloc/data/data-dir/secret-id", "alloc/data/out", "alloc/data/loop", "alloc/data/ring-a", "alloc/data/chain-0", "alloc/data/chain-30", "alloc/data/chain-60",
		"alloc/data/long", "alloc/data/hidden/s", "alloc/data/hidden-file", "hostile/hidden/s", "alloc/data/hard", "web/local/hard", "alloc/data/log",
		"alloc/logs/web.stdout.8/secret", "alloc/logs/web.stdout.9", "alloc/logs/web.stdout.10", "alloc/logs/hostile.stdout.1",
	},
	"pipes": {
		"alloc/data/turns", "alloc/data/pipe", "alloc/data/to-pipe", "alloc/data/device", "alloc/data/dev-zero", "alloc/data/dev-full", "alloc/data/dev-tty",
		"alloc/data/dev-kmsg", "alloc/data/socket", "alloc/data/born", "alloc/data/leased", "web/local/socket", "web/local/leased", "alloc/logs/web.stdout.9",
	},
	"swaps": {
		"alloc/data/n/etc/shadow", "alloc/data/n/secret", "alloc/data/m/secret", "alloc/data/m/dir/file", "alloc/data/swap", "alloc/data/a/b/c/d/../f",
		"alloc/data/a/b/c/d/f", "alloc/data/c/d/f", "web/local/file", "web/secrets/secret", "alloc/logs/web.stdout.2", "alloc/logs/hostile.stderr.1",
	},
	"races":     {"alloc/data/turns", "alloc/data/swap", "alloc/data/turns", "alloc/data/swap", "web/secrets/file"},
	"templates": {"web/local/g", "web/local/g/file", "web/local/p", "web/local/d", "web/secrets/file"},
	"trees": {
		"alloc/data/deep", "alloc/data/grows", "alloc/data/many", "alloc/data/huge", "alloc/data/shut", "alloc/data/shut/1", "web/local/huge",
		"alloc/logs/web.stdout.900",
	},
	"names": {
		"alloc/data/x\x1b]0;owned\a\x1b[2J", "alloc/data/two\nlines", "alloc/data/\xff\xfe", "alloc/tmp/.../.../x", "alloc/tmp/two\nlines/out/secret",
		"alloc/data/%2e%2e/%2e%2e/x", "web/LOCAL/s", "web/secrets /s", "alloc/data/..\n",
	},
	"proc": {
		"alloc/data/proc-self-root/etc/shadow", "alloc/data/proc-self-fd/3", "alloc/data/proc-agent-root/etc/shadow", "alloc/data/proc-agent-environ",
		"alloc/data/proc-magic", "alloc/data/proc-kcore", "alloc/data/proc-fd-8", "alloc/data/proc-fd-9", "alloc/data/proc-init-cwd/etc/shadow",
		"alloc/logs/web.stdout.3",
	},
}

// files asks for all paths of every allocation.
func (w *watch) files(ctx context.Context, verb string) {
	for kind, ids := range w.present() {
		for _, path := range append(paths[kind], places...) {
			for _, id := range ids {
				w.file(ctx, verb, id, path)
			}
		}
	}
}

// races asks for what changes all the time.
func (w *watch) races(ctx context.Context) {
	for _, id := range w.present()["races"] {
		for _, path := range paths["races"] {
			for _, verb := range []string{"cat", "ls", "stat", "readat"} {
				w.file(ctx, verb, id, path)
			}
		}
	}
}

func (w *watch) file(ctx context.Context, verb, id, path string) {
	if ctx.Err() != nil {
		return
	}
	q := url.Values{"path": {path}}
	switch verb {
	case "readat":
		q.Set("offset", "0")
		q.Set("limit", "65536")
	case "stream":
		q.Set("follow", "false")
	}
	w.get(ctx, "/v1/client/fs/"+verb+"/"+id, q)
}

func (w *watch) logs(ctx context.Context, follow string) {
	for _, id := range w.all() {
		for _, task := range []string{"hostile", "web"} {
			for _, kind := range []string{"stdout", "stderr"} {
				for _, origin := range []string{"start", "end"} {
					w.get(ctx, "/v1/client/fs/logs/"+id, url.Values{"task": {task}, "type": {kind}, "origin": {origin}, "follow": {follow}, "offset": {"5000"}})
				}
			}
		}
	}
}

func (w *watch) get(ctx context.Context, path string, q url.Values) {
	w.ask(ctx, http.MethodGet, path+"?"+q.Encode(), "")
}

func (w *watch) put(ctx context.Context, path, body string) { w.ask(ctx, http.MethodPut, path, body) }

// ask asks within bounds of time and size, and looks at what is shown.
func (w *watch) ask(ctx context.Context, method, path, body string) {
	ctx, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, w.API.Address()+path, strings.NewReader(body))
	if err != nil {
		w.t.Errorf("%s: %v", path, err)
		return
	}
	r.Header.Set("X-Nomad-Token", kit.Token())
	resp, err := w.client.Do(r)
	if err != nil {
		return // it took too long: files without an end do
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, answerMax))
	w.asked.Add(1)
	if resp.StatusCode == http.StatusInternalServerError {
		w.t.Errorf("%s %s: %s %.200s", method, path, resp.Status, answer)
	}
	if strings.Contains(path, "/fs/logs/") || strings.Contains(path, "/fs/stream/") {
		answer = unframed(answer)
	}
	if bytes.Contains(answer, []byte(canary)) || w.shadow != nil && bytes.Contains(answer, w.shadow) {
		w.t.Errorf("%s shows what is outside", path)
	}
}

// unframed is the content of a stream.
func unframed(body []byte) (out []byte) {
	d := json.NewDecoder(bytes.NewReader(body))
	for {
		var frame struct{ Data []byte }
		if d.Decode(&frame) != nil {
			return out
		}
		out = append(out, frame.Data...)
	}
}
