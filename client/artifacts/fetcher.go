package artifacts

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/program"
)

//go:embed bin
var carried embed.FS

const (
	programName = "nomad-artifact"
	// atOnce is how many downloads of one task run at once.
	atOnce = 4
	// nobody owns the files of downloads when the agent is root.
	nobody = 65534
)

// Fetcher downloads artifacts on one node.
type Fetcher struct {
	conf  Config
	cache *cache

	mu      sync.Mutex
	program installed
}

// New makes the fetcher of a node.
func New(c Config) *Fetcher {
	return &Fetcher{conf: c, cache: &cache{dir: filepath.Join(c.Dir, "cache"), max: cacheMax}}
}

// Place is where the artifacts of a task go.
type Place struct {
	// Scratch is a directory for the downloads, on the file system of Task; it is made, and removed at the end. No task can
	// change its parent.
	Scratch string
	// Task and Shared are the directories of the task and of the allocation.
	Task, Shared string
	// Isolated is set when the task has these directories at / and /alloc.
	Isolated bool
	// Namespace is that of the job. Namespaces share no cached files.
	Namespace string
	// User is the user of the task; it may be empty.
	User string
}

// Fetch downloads artifacts to their destinations. It waits until ctx ends. Errors are of class fault.Unavailable: a later
// attempt may succeed.
func (f *Fetcher) Fetch(ctx context.Context, to Place, list []Artifact) (err error) {
	owners := make([]owner, len(list))
	for i, a := range list {
		if owners[i], err = ownerOf(a, to.User); err != nil {
			return failure(a, err)
		}
	}
	p, err := f.install(ctx)
	if err != nil {
		return fmt.Errorf("download artifacts: %w", err)
	}
	if err := os.RemoveAll(to.Scratch); err != nil { // of an earlier agent process
		return fault.New(fault.Unavailable, "remove earlier downloads: %w", err)
	}
	defer os.RemoveAll(to.Scratch)
	if err := os.Mkdir(to.Scratch, 0o711); err != nil {
		return fault.New(fault.Unavailable, "make a directory for downloads: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	slots, ready := make(chan struct{}, atOnce), make([]chan error, len(list))
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	for i, a := range list {
		ready[i] = make(chan error, 1)
		all.Go(func() {
			select {
			case slots <- struct{}{}:
				ready[i] <- f.download(ctx, p, scratch(to, i), to.Namespace, a)
				<-slots
			case <-ctx.Done():
				ready[i] <- ctx.Err()
			}
		})
	}
	for i, a := range list {
		err := <-ready[i]
		if err == nil {
			err = deliver(scratch(to, i), to, a, owners[i])
		}
		if err != nil {
			return failure(a, err)
		}
	}
	return nil
}

func scratch(to Place, number int) string { return filepath.Join(to.Scratch, strconv.Itoa(number)) }

func failure(a Artifact, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return fault.Wrap(fault.Unavailable, hidden{fmt.Sprintf("failed to download artifact %q: %s", a.shown(), a.hide(err.Error())), err})
}

// hidden has the classes of another error, and a text without secrets.
type hidden struct {
	text string
	of   error
}

func (h hidden) Error() string { return h.text }

func (h hidden) Unwrap() error { return h.of }

// installed is the program on the disk of the node, and the flags that put it into namespaces of its own.
type installed struct {
	path       string
	namespaces uintptr
}

const (
	// namespaces let all processes of a download end with the program.
	namespaces = unix.CLONE_NEWPID | unix.CLONE_NEWIPC
	// exitUnasked is the exit code of the program without a request.
	exitUnasked = 2
)

// install writes the program at its first use, and again when it is missing.
func (f *Fetcher) install(ctx context.Context) (installed, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := os.Stat(f.program.path); f.program.path != "" && err == nil {
		return f.program, nil
	}
	path, err := program.Install(carried, programName, f.conf.Dir)
	if err != nil {
		return installed{}, err
	}
	p := installed{path: path}
	if os.Geteuid() == 0 {
		p.namespaces = namespaces
	}
	err = try(ctx, p)
	if errors.Is(err, unix.EPERM) && p.namespaces != 0 { // as root in a container
		p.namespaces = 0
		err = try(ctx, p)
	}
	if err != nil {
		return installed{}, fault.New(fault.Unavailable, "run %s: %w (is the file system mounted noexec?)", path, err)
	}
	old, _ := filepath.Glob(filepath.Join(f.conf.Dir, programName+"-*"))
	for _, name := range old { // of earlier versions: no download outlives its agent
		if name != path {
			_ = os.Remove(name)
		}
	}
	f.program = p
	return p, nil
}

// try runs the program without a request.
func try(ctx context.Context, p installed) error {
	cmd := exec.CommandContext(ctx, p.path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: p.namespaces}
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != exitUnasked {
		return fmt.Errorf("it does not work: %w", err)
	}
	return nil
}
