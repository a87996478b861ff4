package artifacts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api/fault"
)

const (
	replyMax = 64 << 10
	// usePause is the time between two looks at how much a download has written.
	usePause = 2 * time.Second
	// drainMax is the time for the output of a program that was killed.
	drainMax = time.Second
)

// request is the input of the program; see nomad-artifact/main.go.
type request struct {
	Source, Mode                  string
	Headers                       map[string]string
	Insecure                      bool
	User                          int
	Confined                      bool
	Extra                         []string
	Keep, Cached                  bool
	MaxBytes, MaxUnpacked         int64
	MaxFiles                      int
	HTTP, GCS, Git, Mercurial, S3 time.Duration
}

// download runs the program for one artifact; the result is dir/out/content.
func (f *Fetcher) download(ctx context.Context, p installed, dir, namespace string, a Artifact) error {
	user, err := makeScratch(dir)
	if err != nil {
		return err
	}
	c := f.conf
	req := request{
		Source: a.source(), Mode: a.Mode, Headers: a.Headers, Insecure: a.Insecure, User: user,
		Confined: !c.Unconfined, Extra: c.ExtraPaths, MaxBytes: c.HTTPMaxBytes, MaxUnpacked: c.MaxBytes, MaxFiles: c.MaxFiles,
		HTTP: c.HTTPReadTimeout, GCS: c.GCSTimeout, Git: c.GitTimeout, Mercurial: c.HgTimeout, S3: c.S3Timeout,
	}
	key := cacheKey(namespace, a)
	cached := f.cache.open(key)
	req.Cached, req.Keep = cached != nil, cached == nil && key != ""
	if err = f.run(ctx, p, dir, a, req, cached); err != nil && cached != nil && ctx.Err() == nil {
		f.cache.remove(key) // it was damaged, or it is not that of this source
		req.Cached, req.Keep = false, true
		if err = os.RemoveAll(dir); err == nil {
			if _, err = makeScratch(dir); err == nil {
				err = f.run(ctx, p, dir, a, req, nil)
			}
		}
	}
	if err == nil && req.Keep {
		_ = f.cache.add(key, dir) // it is downloaded again next time
	}
	return err
}

// makeScratch makes the directory of a download and returns the user that owns it; 0 is the agent's.
func makeScratch(dir string) (user int, err error) {
	if os.Geteuid() == 0 {
		user = nobody
	}
	for _, d := range []string{dir, filepath.Join(dir, "tmp"), filepath.Join(dir, "out")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return 0, fmt.Errorf("make a directory for the download: %w", err)
		}
	}
	for _, d := range []string{filepath.Join(dir, "tmp"), filepath.Join(dir, "out"), dir} { // dir last: nothing in it can change before
		if user != 0 {
			if err := os.Chown(d, user, user); err != nil {
				return 0, fmt.Errorf("set the owner of the directory for the download: %w", err)
			}
		}
	}
	return user, nil
}

// run runs the program once and returns what it reports.
func (f *Fetcher) run(ctx context.Context, p installed, dir string, a Artifact, req request, cached *os.File) error {
	if cached != nil {
		defer cached.Close()
	}
	if limit := f.conf.limit(a.Source); limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, fault.New(fault.Unavailable, "it took longer than %v", limit))
		defer cancel()
	}
	var watch sync.WaitGroup
	defer watch.Wait()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	input, err := json.Marshal(req)
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, p.path)
	cmd.Dir, cmd.Env = dir, f.environment()
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &bounded{&out}, &bounded{&errs}, drainMax
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Cloneflags: p.namespaces}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	if cached != nil {
		cmd.ExtraFiles = []*os.File{cached}
	}
	in, err := cmd.StdinPipe() // open until the end: the program ends when the agent does
	if err != nil {
		return fmt.Errorf("start download: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start download: %w", err)
	}
	watch.Go(func() { f.watchUse(ctx, dir, stop) })
	_, _ = in.Write(input)
	err = cmd.Wait()
	if p.namespaces == 0 {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // what the program has started and not ended
	}
	var reply struct{ Error *string }
	switch decoded := json.Unmarshal(out.Bytes(), &reply); {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("the download ended before it was complete: %w %s", err, firstLine(errs.String()))
	case decoded != nil || reply.Error == nil:
		return errors.New("the program for downloads sent no reply")
	case *reply.Error != "":
		return errors.New(strings.ReplaceAll(*reply.Error, dir+"/", ""))
	}
	return nil
}

// environment is what the program gets.
func (f *Fetcher) environment() []string {
	path := os.Getenv("PATH")
	if path == "" {
		path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
	env := []string{"PATH=" + path}
	names := append([]string{"http_proxy", "https_proxy", "no_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"}, f.conf.Variables...)
	for _, name := range names {
		if value, ok := os.LookupEnv(name); ok && name != "PATH" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// watchUse ends a download that writes more than its limits: an archive may contain more than it declares.
func (f *Fetcher) watchUse(ctx context.Context, dir string, stop context.CancelCauseFunc) {
	if f.conf.HTTPMaxBytes <= 0 || f.conf.MaxBytes <= 0 {
		return
	}
	limit := 2*f.conf.HTTPMaxBytes + f.conf.MaxBytes // a kept file is there twice
	tick := time.NewTicker(usePause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if used(dir) > limit {
			stop(fault.New(fault.Exhausted, "it has written more than %d bytes, the limits of client.artifact", limit))
			return
		}
	}
}

func used(dir string) (bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if st, err := d.Info(); err == nil {
				bytes += st.Sys().(*syscall.Stat_t).Blocks * 512
			}
		}
		return nil
	})
	return bytes
}

// bounded keeps the first bytes of an output.
type bounded struct{ *bytes.Buffer }

// Write keeps what fits and reports all of p as written.
func (b *bounded) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), replyMax-b.Len())])
	return len(p), nil
}

// ReadFrom hides the method of the buffer, which has no limit.
func (b *bounded) ReadFrom(r io.Reader) (int64, error) { return io.Copy(struct{ io.Writer }{b}, r) }

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}
