package artifacts_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/artifacts"
)

// node is a fetcher and the directories of a task.
type node struct {
	*artifacts.Fetcher
	artifacts.Place
}

var (
	first     *artifacts.Fetcher
	firstOnce sync.Once
	programs  string
)

// installed is a fetcher whose program is on the disk: to unpack it takes seconds.
func installed(t *testing.T) *artifacts.Fetcher {
	t.Helper()
	firstOnce.Do(func() {
		first = artifacts.New(artifacts.Config{Dir: programs})
		if err := first.Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	return first
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "artifacts")
	if err != nil {
		panic(err)
	}
	programs = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func newNode(t *testing.T, change func(*artifacts.Config)) node {
	t.Helper()
	base := t.TempDir()
	if err := os.Chmod(filepath.Dir(base), 0o711); err != nil { // nobody has to reach the scratch directory
		t.Fatal(err)
	}
	c := artifacts.Default()
	c.Dir = filepath.Join(base, "state")
	if change != nil {
		change(&c)
	}
	f := artifacts.New(c)
	f.Share(installed(t))
	n := node{f, artifacts.Place{
		Scratch: filepath.Join(base, "alloc", ".made-artifacts"), Task: filepath.Join(base, "alloc", "web"), Shared: filepath.Join(base, "alloc", "alloc"), Namespace: "default",
	}}
	for _, dir := range []string{n.Task + "/local", n.Shared + "/data"} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

func (n node) fetch(t *testing.T, list ...artifacts.Artifact) error {
	t.Helper()
	err := n.Fetch(t.Context(), n.Place, list)
	if _, left := os.Lstat(n.Scratch); !os.IsNotExist(left) {
		t.Errorf("the scratch directory is left: %v", left)
	}
	return err
}

func (n node) wants(t *testing.T, name, want string) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(n.Task, name))
	if err != nil || string(got) != want {
		t.Errorf("%s contains %q, %v; want %q", name, brief(got), err, brief([]byte(want)))
	}
}

func brief(b []byte) string { return string(b[:min(len(b), 60)]) }

// serve serves files by their paths.
func serve(t *testing.T, files map[string][]byte) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := files[strings.TrimPrefix(r.URL.Path, "/")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(body)
	}))
	t.Cleanup(s.Close)
	return s
}

func sum(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }

func tgz(t *testing.T, entries ...*tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for _, h := range entries {
		body := strings.Repeat("x", int(h.Size))
		if err := errors.Join(w.WriteHeader(h), second(io.WriteString(w, body))); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func second(_ int, err error) error { return err }

func zipped(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for name, body := range files {
		f, err := w.Create(name)
		if err = errors.Join(err, second(io.WriteString(f, body))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestArtifactsReachTheirDestinations(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	archive := tgz(t, &tar.Header{Name: "bin/", Mode: 0o755, Typeflag: tar.TypeDir}, &tar.Header{Name: "bin/run", Mode: 0o4755, Size: 3}, &tar.Header{Name: "etc/key", Mode: 0o600, Size: 2})
	pack := zipped(t, map[string]string{"deep/c": "see"})
	s := serve(t, map[string][]byte{"a.txt": []byte("plain"), "b.tgz": archive, "c.zip": pack})
	if err := os.WriteFile(n.Task+"/local/a.txt", []byte("earlier"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := n.fetch(t,
		artifacts.Artifact{Source: s.URL + "/a.txt", Destination: "local/"},
		artifacts.Artifact{Source: s.URL + "/a.txt", Destination: "local/sub/renamed", Mode: "file"},
		artifacts.Artifact{Source: s.URL + "/a.txt", Destination: n.Task + "/local/abs", Options: map[string]string{"filename": "named", "checksum": sum([]byte("plain"))}},
		artifacts.Artifact{Source: s.URL + "/b.tgz", Destination: "local/tree"},
		artifacts.Artifact{Source: s.URL + "/c.zip", Destination: "local/tree", Options: map[string]string{"checksum": fmt.Sprintf("md5:%x", md5.Sum(pack))}},
		artifacts.Artifact{Source: s.URL + "/b.tgz", Destination: "local/raw", Options: map[string]string{"archive": "false"}},
		artifacts.Artifact{Source: s.URL + "/b.tgz//etc", Destination: "../alloc/data/etc"},
	)
	if err != nil {
		t.Fatal(err)
	}
	n.wants(t, "local/a.txt", "plain")
	n.wants(t, "local/sub/renamed", "plain")
	n.wants(t, "local/abs/named", "plain")
	n.wants(t, "local/tree/bin/run", "xxx")
	n.wants(t, "local/tree/deep/c", "see")
	n.wants(t, "local/raw/b.tgz", string(archive))
	n.wants(t, "../alloc/data/etc/key", "xx")
	for name, want := range map[string]os.FileMode{"local/tree/bin/run": 0o755, "local/tree/etc/key": 0o644, "local/tree/bin": 0o755 | os.ModeDir, "local/sub": 0o755 | os.ModeDir} {
		st, err := os.Lstat(filepath.Join(n.Task, name))
		if err != nil {
			t.Fatal(err)
		}
		if st.Mode() != want {
			t.Errorf("%s has the mode %v, want %v", name, st.Mode(), want)
		}
		if uid := st.Sys().(*syscall.Stat_t).Uid; os.Geteuid() == 0 && uid != 65534 {
			t.Errorf("%s has the owner %d, want nobody", name, uid)
		}
	}
}

func TestLaterArtifactsReplaceFilesOfEarlierOnes(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("n") == "0" {
			time.Sleep(300 * time.Millisecond) // the first ends last
		}
		_, _ = io.WriteString(w, r.URL.Query().Get("n"))
	}))
	t.Cleanup(s.Close)
	var list []artifacts.Artifact
	for i := range 6 {
		list = append(list, artifacts.Artifact{Source: fmt.Sprintf("%s/file?n=%d", s.URL, i), Destination: "local"})
	}
	if err := n.fetch(t, list...); err != nil {
		t.Fatal(err)
	}
	n.wants(t, "local/file", "5")
}

func TestHeadersAndChown(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	n.User = "daemon"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("X-Token"))
	}))
	t.Cleanup(s.Close)
	if err := n.fetch(t, artifacts.Artifact{Source: s.URL + "/f", Destination: "local/new", Headers: map[string]string{"X-Token": "open"}, Chown: true}); err != nil {
		t.Fatal(err)
	}
	n.wants(t, "local/new/f", "open")
	if os.Geteuid() == 0 {
		for _, name := range []string{"/local/new", "/local/new/f"} {
			if st, err := os.Stat(n.Task + name); err != nil || st.Sys().(*syscall.Stat_t).Uid != 1 {
				t.Errorf("%s: %+v %v, want the owner daemon", name, st, err)
			}
		}
	}
	n.User = "no-such-user"
	if err := n.fetch(t, artifacts.Artifact{Source: s.URL + "/f", Chown: true}); os.Geteuid() == 0 && (err == nil || !strings.Contains(err.Error(), "no-such-user")) {
		t.Errorf("an unknown user: %v", err)
	}
}

// The directories of the agent may be closed for other users.
func TestDownloadsBelowClosedDirectories(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	if err := os.Chmod(filepath.Dir(filepath.Dir(n.Task)), 0o700); err != nil {
		t.Fatal(err)
	}
	archive := tgz(t, &tar.Header{Name: "x", Mode: 0o644, Size: 1})
	s := serve(t, map[string][]byte{"f": []byte("f"), "a.tgz": archive})
	if err := n.fetch(t, artifacts.Artifact{Source: s.URL + "/f"}, artifacts.Artifact{Source: s.URL + "/a.tgz", Options: map[string]string{"checksum": sum(archive)}}); err != nil {
		t.Fatal(err)
	}
	n.wants(t, "local/f", "f")
	n.wants(t, "local/x", "x")
	if err := n.fetch(t, artifacts.Artifact{Source: "git::" + s.URL + "/repo"}); os.Geteuid() == 0 && (err == nil || !strings.Contains(err.Error(), "chmod o+x")) {
		t.Errorf("git: %v", err)
	}
}

// Headers may be credentials.
func TestHeadersStayWithTheHost(t *testing.T) {
	t.Parallel()
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(w, r, to, http.StatusFound)
			return
		}
		_, _ = io.WriteString(w, "token="+r.Header.Get("X-Token"))
	})
	s, other := httptest.NewServer(echo), httptest.NewServer(echo)
	t.Cleanup(s.Close)
	t.Cleanup(other.Close)
	n := newNode(t, nil)
	for to, want := range map[string]string{s.URL + "/b": "token=open", other.URL + "/b": "token="} {
		a := artifacts.Artifact{Source: s.URL + "/f?to=" + to, Destination: "local/x", Mode: "file", Headers: map[string]string{"x-token": "open"}}
		if err := n.fetch(t, a); err != nil {
			t.Fatal(err)
		}
		n.wants(t, "local/x", want)
	}
}

func TestDestinationsOfIsolatedTasks(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	n.Isolated = true
	if other, err := os.MkdirTemp("/dev/shm", "artifacts"); err == nil { // downloads lie on another file system, as for secrets
		t.Cleanup(func() { _ = os.RemoveAll(other) })
		if err := os.Chmod(other, 0o711); err != nil {
			t.Fatal(err)
		}
		n.Scratch = other + "/scratch"
	}
	s := serve(t, map[string][]byte{"f": []byte("f"), "d.tgz": tgz(t, &tar.Header{Name: "d/e/x", Mode: 0o755, Size: 1}), "sums": []byte(strings.TrimPrefix(sum([]byte("f")), "sha256:") + "  f\n")})
	err := n.fetch(t,
		artifacts.Artifact{Source: s.URL + "/f", Destination: "/alloc/data/one"}, artifacts.Artifact{Source: s.URL + "/f", Destination: "/local/two", Mode: "file"},
		artifacts.Artifact{Source: s.URL + "/d.tgz", Destination: "/secrets"},
		artifacts.Artifact{Source: s.URL + "/f", Destination: "/local", Options: map[string]string{"checksum": "file:" + s.URL + "/sums"}},
	)
	if err != nil {
		t.Fatal(err)
	}
	n.wants(t, "../alloc/data/one/f", "f")
	n.wants(t, "local/two", "f")
	n.wants(t, "local/f", "f")
	n.wants(t, "secrets/d/e/x", "x")
	if st, err := os.Stat(n.Task + "/secrets/d/e/x"); err != nil || st.Mode() != 0o755 {
		t.Errorf("%+v %v", st, err)
	}
	if left, _ := filepath.Glob(n.Task + "/*/.made-*"); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

func TestInsecureSkipsTheCertificate(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	s.Config.ErrorLog = nil
	t.Cleanup(s.Close)
	if err := n.fetch(t, artifacts.Artifact{Source: s.URL + "/f"}); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("with an unknown certificate: %v", err)
	}
	if err := n.fetch(t, artifacts.Artifact{Source: s.URL + "/f", Insecure: true}); err != nil {
		t.Error(err)
	}
}

func TestRefusedSources(t *testing.T) {
	t.Parallel()
	n := newNode(t, func(c *artifacts.Config) { c.MaxFiles, c.MaxBytes, c.HTTPMaxBytes = 5, 1<<20, 64<<10 })
	many := make([]*tar.Header, 9)
	for i := range many {
		many[i] = &tar.Header{Name: fmt.Sprint("f", i), Mode: 0o644, Size: 1}
	}
	s := serve(t, map[string][]byte{
		"big": bytes.Repeat([]byte("x"), 65<<10), "bomb.zip": zipped(t, map[string]string{"x": strings.Repeat("0", 2<<20)}),
		"bomb.tgz": tgz(t, &tar.Header{Name: "x", Mode: 0o644, Size: 2 << 20}), "many.tgz": tgz(t, many...),
		"up.tgz": tgz(t, &tar.Header{Name: "../up", Mode: 0o644, Size: 1}), "f": []byte("f"), "empty.zip": zipped(t, nil),
	})
	redirects := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", r.URL.Query().Get("to"))
		w.WriteHeader(http.StatusFound)
	}))
	t.Cleanup(redirects.Close)
	chunked := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range 1 << 10 {
			if _, err := w.Write(make([]byte, 1<<10)); err != nil {
				return
			}
		}
	}))
	t.Cleanup(chunked.Close)
	for _, c := range []struct{ source, want string }{
		{s.URL + "/none", "bad response code: 404"},
		{s.URL + "/big", "http_max_size"},
		{chunked.URL + "/endless", "http_max_size"},
		{s.URL + "/bomb.zip", "larger than limit"},
		{s.URL + "/bomb.tgz", "larger than limit"},
		{s.URL + "/many.tgz", "too many files"},
		{s.URL + "/up.tgz", "'..'"},
		{s.URL + "/empty.zip", "empty archive"},
		{s.URL + "/f?checksum=sha256:" + strings.Repeat("0", 64), "checksums did not match"},
		{"file:///etc/passwd", "file"},
		{"/etc/passwd", "invalid source"},
		{"git::file:///etc", `scheme "file" is refused`},
		{"git::/etc", "invalid source"},
		{"git::ext::sh -c id", "refused"},
		{"nothing::http://x/y", "not supported for scheme 'nothing'"},
		{redirects.URL + "/?to=file:///etc/passwd", ""},
		{redirects.URL + "/f?to=file:///etc/passwd", `scheme "file" is refused`},
		{redirects.URL + "/f?to=http://169.254.169.254/latest", "169.254.169.254 is refused"},
		{redirects.URL + "/f?to=http://[fd00:ec2::254]/latest", "fd00:ec2::254 is refused"},
		{redirects.URL + "/f?to=/f", ""},
		{"http://169.254.169.254/latest/meta-data", "169.254.169.254 is refused"},
		{"http://[::ffff:169.254.169.254]/latest", "169.254.169.254 is refused"},
		{"s3::http://169.254.169.254/latest/meta-data", "169.254.169.254 is refused"},
		{"git::http://169.254.169.254/repo", "169.254.169.254 is refused"},
	} {
		source, want := c.source, c.want
		err := n.fetch(t, artifacts.Artifact{Source: source, Destination: "local/bad"})
		if err == nil || !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "failed to download artifact ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want %q", source, err, want)
		}
	}
	if left, _ := filepath.Glob(n.Task + "/local/*"); len(left) > 0 {
		t.Errorf("refused artifacts left %v", left)
	}
}

func TestErrorsHideCredentials(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	err := n.fetch(t, artifacts.Artifact{
		Source: "http://user:pass%2Fword@127.0.0.1:1/f?token=querysecret", Headers: map[string]string{"Authorization": "Bearer headersecret"},
		Options: map[string]string{"sshkey": "optionsecret"},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, secret := range []string{"pass", "querysecret", "headersecret", "optionsecret"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the error contains %q: %v", secret, err)
		}
	}
	if !strings.HasPrefix(err.Error(), `failed to download artifact "http://127.0.0.1:1/f": `) {
		t.Error(err)
	}
}

func TestDestinationsStayWithinTheTask(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	outside := t.TempDir()
	if err := errors.Join(os.Symlink(outside, n.Task+"/local/out"), os.Symlink(outside+"/file", n.Task+"/local/f")); err != nil {
		t.Fatal(err)
	}
	s := serve(t, map[string][]byte{"f": []byte("f"), "d.zip": zipped(t, map[string]string{"out/x": "x"})})
	for _, a := range []artifacts.Artifact{
		{Source: s.URL + "/f", Destination: "local/out"},
		{Source: s.URL + "/f", Destination: "local/out/f", Mode: "file"},
		{Source: s.URL + "/f", Destination: "../../x"},
		{Source: s.URL + "/f", Destination: ".", Mode: "file"},
	} {
		if err := n.fetch(t, a); err == nil {
			t.Errorf("%+v is accepted", a)
		}
	}
	if err := n.fetch(t, artifacts.Artifact{Source: s.URL + "/f"}, artifacts.Artifact{Source: s.URL + "/d.zip"}); err != nil {
		t.Fatal(err)
	}
	n.wants(t, "local/f", "f")
	n.wants(t, "local/out/x", "x")
	if left, _ := os.ReadDir(outside); len(left) > 0 {
		t.Errorf("written outside of the task: %v", left)
	}
}

func TestDownloadEndsInTime(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	hang := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(hang) })
	n := newNode(t, func(c *artifacts.Config) { c.HTTPReadTimeout = 200 * time.Millisecond })
	if err := n.fetch(t, artifacts.Artifact{Source: s.URL + "/f"}); err == nil || !strings.Contains(err.Error(), "deadline exceeded") {
		t.Errorf("a server that does not respond: %v", err)
	}
	n = newNode(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	before := asked.Load()
	done := make(chan error, 1)
	go func() { done <- n.Fetch(ctx, n.Place, []artifacts.Artifact{{Source: s.URL + "/f"}}) }()
	for asked.Load() == before {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
}
