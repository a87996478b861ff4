package artifacts_test

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/client/artifacts"
)

// script makes a program that is run instead of nomad-artifact.
func script(t *testing.T, n node, apart bool, body string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o700); err != nil { //nolint:gosec // it is executed
		t.Fatal(err)
	}
	n.Use(path, apart)
}

const done = `; echo '{"Error":""}'`

func TestResultsOfAHostileProgramAreChecked(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	if err := os.WriteFile(outside+"/content", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]string{
		"rmdir out; ln -s " + outside + " out" + done:                                                              "escapes",
		"mkdir out/content; ln -s /etc/passwd out/content/l" + done:                                                "the link l leads out",
		"mkdir out/content; ln -s ../../../up out/content/l" + done:                                                "the link l leads out",
		"mkdir -p out/content/d out/content/e; ln -s ../e out/content/d/b; ln -s b/../../z out/content/d/c" + done: "the link d/c leads out",
		"ln -s /etc/passwd out/content" + done:                                                                     "the link content leads out",
		"mkfifo out/content" + done:                                                                                "neither a file nor a directory",
		"mkdir out/content; mkfifo out/content/p" + done:                                                           "neither a file nor a directory",
		"true" + done:                   "no such file",
		"kill -9 $$":                    "ended before it was complete: signal: killed",
		"echo broken >&2; exit 3":       "exit status 3 broken",
		"yes":                           "sent no reply",
		"echo '{}'":                     "sent no reply",
		`echo '{"Error":"the reason"}'`: "the reason",
		"exec sleep 60":                 "it took longer than 2s",
	} {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			n := newNode(t, func(c *artifacts.Config) { c.HTTPReadTimeout, c.Grace = time.Second, time.Second })
			if body == "yes" {
				body = "head -c 1000000 /dev/zero"
			}
			script(t, n, false, body)
			err := n.fetch(t, artifacts.Artifact{Source: "http://127.0.0.1:1/f"})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v; want %q", body, err, want)
			}
			if left, _ := filepath.Glob(n.Task + "/local/*"); len(left) > 0 {
				t.Errorf("%s: left %v", body, left)
			}
		})
	}
}

func TestLinksWithinAnArtifactAreKept(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	script(t, n, false, "mkdir -p out/content/d; echo x > out/content/f; chmod 6755 out/content/f; ln -s ../f out/content/d/l"+done)
	if err := n.fetch(t, artifacts.Artifact{Source: "http://127.0.0.1:1/f"}); err != nil {
		t.Fatal(err)
	}
	n.wants(t, "local/d/l", "x\n")
	if st, err := os.Stat(n.Task + "/local/f"); err != nil || st.Mode() != 0o755 {
		t.Errorf("%+v %v: want no setuid", st, err)
	}
}

func TestAllProcessesOfADownloadEnd(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	started := filepath.Join(t.TempDir(), "started")
	duration := fmt.Sprintf("1%07d", os.Getpid()) // identifies the process
	leave := ""
	if os.Geteuid() == 0 { // it leaves the process group
		leave = "setsid "
	}
	script(t, n, true, fmt.Sprintf("%ssh -c 'echo > %s; exec sleep %s' >/dev/null 2>&1 </dev/null & while [ ! -e %s ]; do sleep 0.01; done; echo x > out/content", leave, started, duration, started)+done)
	if err := n.fetch(t, artifacts.Artifact{Source: "http://127.0.0.1:1/f", Destination: "local/f", Mode: "file"}); err != nil {
		t.Fatal(err)
	}
	for tries := 0; len(withArgument(duration)) > 0; tries++ {
		if tries > 200 {
			t.Fatalf("processes %v of the download are left", withArgument(duration))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// withArgument returns the processes with the text in their command line.
func withArgument(text string) (found []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range all {
		if line, err := os.ReadFile(name); err == nil && bytes.Contains(line, []byte(text)) {
			found = append(found, name)
		}
	}
	return found
}

// The declared size of an entry is wrong: it must not fill the disk.
func TestArchivesThatLie(t *testing.T) {
	t.Parallel()
	var packed, out bytes.Buffer
	w, err := flate.NewWriter(&packed, 9)
	if err == nil {
		_, err = w.Write(make([]byte, 8<<20))
	}
	if err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(&out)
	f, err := z.CreateRaw(&zip.FileHeader{Name: "f", Method: zip.Deflate, UncompressedSize64: 10, CompressedSize64: uint64(packed.Len())})
	if err == nil {
		_, err = f.Write(packed.Bytes())
	}
	if err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	s := serve(t, map[string][]byte{"f.zip": out.Bytes()})
	n := newNode(t, func(c *artifacts.Config) { c.MaxBytes, c.HTTPMaxBytes = 1<<20, 1<<20 })
	if err := n.fetch(t, artifacts.Artifact{Source: s.URL + "/f.zip"}); err == nil {
		t.Error("accepted")
	}
}

func TestDownloadEndsWithTheAgent(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 9)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(s.Close)
	dir := t.TempDir()
	cmd := exec.Command(installed(t).Program()) //nolint:gosec // our program
	cmd.Dir = dir
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir+"/tmp", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := json.NewEncoder(in).Encode(map[string]any{"Source": s.URL + "/f", "Confined": true}); err != nil {
		t.Fatal(err)
	}
	<-asked
	if err := in.Close(); err != nil { // as the kernel does when the agent dies
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() { over <- cmd.Wait() }()
	select {
	case <-over:
	case <-time.After(20 * time.Second):
		_ = cmd.Process.Kill()
		t.Error("the program runs on without the agent")
	}
}

// A program that takes the place of git shows what a download may do.
func TestDownloadsAreRestricted(t *testing.T) {
	bin, outside := t.TempDir(), t.TempDir()
	for _, dir := range []string{bin, outside} {
		if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { //nolint:gosec // nobody enters it
			t.Fatal(err)
		}
	}
	if err := os.Chmod(outside, 0o777); err != nil { //nolint:gosec // the rights of the user permit it
		t.Fatal(err)
	}
	if err := os.WriteFile(outside+"/read", nil, 0o644); err != nil { //nolint:gosec // the rights of the user permit it
		t.Fatal(err)
	}
	fake := fmt.Sprintf(`#!/bin/sh
echo "uid=$(id -u) groups=$(id -G)"
echo "env=$(env | sed 's/=.*//' | grep -v '^_$\|^PWD$\|^SHLVL$\|^OLDPWD$' | sort | tr '\n' ' ')"
grep NoNewPrivs /proc/self/status
(echo > %s/written) 2>/dev/null && echo wrote
(cat %s/read) 2>/dev/null && echo did-read
(echo > $TMPDIR/own) && echo wrote-own
exit 1
`, outside, outside)
	if err := os.WriteFile(bin+"/git", []byte(fake), 0o755); err != nil { //nolint:gosec // it is executed
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("OF_THE_AGENT", "secret")
	t.Setenv("WANTED", "x")
	for _, name := range []string{"http_proxy", "https_proxy", "no_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"} {
		t.Setenv(name, "")
		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}
	_, _, missing := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	for _, unconfined := range []bool{false, true} {
		n := newNode(t, func(c *artifacts.Config) {
			c.Unconfined, c.ExtraPaths, c.Variables = unconfined, []string{"d:rx:" + bin, "d:r:/proc"}, []string{"WANTED"}
		})
		err := n.fetch(t, artifacts.Artifact{Source: "git::http://127.0.0.1:1/repo"})
		if err == nil {
			t.Fatal("no error")
		}
		free := unconfined || missing != 0
		for text, want := range map[string]bool{
			"uid=65534 groups=65534 ": os.Geteuid() == 0, "NoNewPrivs: 1": unconfined || missing == 0, "wrote-own": true, "OF_THE_AGENT": false,
			"wrote ": free, "did-read": free, "HTTPS_PROXY HTTP_PROXY PATH TMPDIR WANTED http_proxy https_proxy ": true,
		} {
			if strings.Contains(err.Error(), text) != want {
				t.Errorf("unconfined %v: %q is %v in %v", unconfined, text, !want, err)
			}
		}
	}
}

func TestRepositories(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	web := t.TempDir()
	commands := `set -e; cd "$1"; export HOME="$1" GIT_CONFIG_NOSYSTEM=1
git init -q -b main work; cd work; git config user.email a@b; git config user.name a
mkdir sub; echo one > sub/f; ln -s sub/f link; git add .; git commit -qm one; git tag v1
echo two > sub/f; git commit -qam two; cd ..; git clone -q --bare work repo.git; git -C repo.git update-server-info`
	if out, err := exec.Command("sh", "-c", commands, "sh", web).CombinedOutput(); err != nil { //nolint:gosec // of the test
		t.Fatalf("%v: %s", err, out)
	}
	files := httptest.NewServer(http.FileServer(http.Dir(web)))
	t.Cleanup(files.Close)
	away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254"+r.URL.Path+"?"+r.URL.RawQuery, http.StatusFound)
	}))
	t.Cleanup(away.Close)
	n := newNode(t, nil)
	err := n.fetch(t,
		artifacts.Artifact{Source: "git::" + files.URL + "/repo.git", Destination: "local/new"},
		artifacts.Artifact{Source: "git::" + files.URL + "/repo.git", Destination: "local/old", Options: map[string]string{"ref": "v1"}},
		artifacts.Artifact{Source: "git::" + files.URL + "/repo.git//sub", Destination: "local/sub"},
	)
	if err != nil {
		t.Fatal(err)
	}
	n.wants(t, "local/new/sub/f", "two\n")
	n.wants(t, "local/new/link", "two\n")
	n.wants(t, "local/old/sub/f", "one\n")
	n.wants(t, "local/sub/f", "two\n")
	if err := n.fetch(t, artifacts.Artifact{Source: "git::" + away.URL + "/repo.git"}); err == nil || !strings.Contains(err.Error(), "502") {
		t.Errorf("a redirect of git to a metadata service: %v", err)
	}
}

func TestObjectStores(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !strings.Contains(r.Header.Get("Authorization"), "Credential=key/"):
			w.WriteHeader(http.StatusForbidden)
		case r.URL.Query().Get("list-type") == "2":
			_, _ = io.WriteString(w, `<?xml version="1.0"?><ListBucketResult><Name>bucket</Name><Contents><Key>dir/f</Key></Contents></ListBucketResult>`)
		case r.URL.Path == "/bucket/dir/f":
			_, _ = io.WriteString(w, "object")
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	n := newNode(t, nil)
	keys := map[string]string{"aws_access_key_id": "key", "aws_access_key_secret": "topsecret"}
	if err := n.fetch(t, artifacts.Artifact{Source: "s3::" + s.URL + "/bucket/dir/f", Options: keys}, artifacts.Artifact{Source: "s3::" + s.URL + "/bucket/dir", Destination: "local/all", Options: keys}); err != nil {
		t.Fatal(err)
	}
	n.wants(t, "local/f", "object")
	n.wants(t, "local/all/f", "object")
}
