package secrets

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
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/go-version"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/ids"
)

// Limits of one run of an executable.
const (
	fingerprintMax = 4 * time.Second
	fetchMax       = 10 * time.Second
	// drainMax is the time for the output of processes that have been killed.
	drainMax  = time.Second
	outputMax = 256 << 10
	// textMax limits what is quoted of an error of the executable.
	textMax = 300
	// runsMax is how many executables run at once, providersMax how many are looked at.
	runsMax      = 16
	versionMax   = 64
	providersMax = 64
)

// Subdir is the directory of the providers in the common plugin directory.
const Subdir = "secrets"

var running = make(chan struct{}, runsMax)

// Fingerprint returns the node attributes of the built-in provider and of the executables in dir. Those that fail are reported to
// failed and have no attribute.
func Fingerprint(ctx context.Context, dir string, failed func(provider string, err error)) map[string]string {
	out := map[string]string{attribute(Builtin): builtinVersion}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		failed("", fmt.Errorf("read the directory of secret providers: %w", err))
	}
	if len(entries) > providersMax {
		failed("", fault.New(fault.Exhausted, "%s has %d entries: only %d are used", dir, len(entries), providersMax))
		entries = entries[:providersMax]
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, e := range entries {
		all.Go(func() {
			v, err := fingerprint(ctx, dir, e.Name())
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed(e.Name(), err)
				return
			}
			out[attribute(e.Name())] = v
		})
	}
	all.Wait()
	return out
}

func attribute(provider string) string { return "plugins.secrets." + provider + ".version" }

func fingerprint(ctx context.Context, dir, provider string) (string, error) {
	if provider == Builtin || provider == "vault" {
		return "", fault.New(fault.Invalid, "the name is that of a built-in provider: rename the executable")
	}
	ctx, cancel := context.WithTimeout(ctx, fingerprintMax)
	defer cancel()
	out, err := run(ctx, dir, provider, nil, "fingerprint")
	if err != nil {
		return "", err
	}
	var f struct{ Type, Version string }
	if !decode(out, &f) || f.Type != "secrets" {
		return "", fault.New(fault.Invalid, `it did not print a JSON object with the type "secrets"`)
	}
	if _, err := version.NewVersion(f.Version); err != nil || len(f.Version) > versionMax {
		return "", fault.New(fault.Invalid, "its version is not one such as 1.2.3")
	}
	return f.Version, nil
}

// fetch runs an executable for the secret at a path.
func fetch(ctx context.Context, dir, provider, path string, env []string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchMax)
	defer cancel()
	out, failed := run(ctx, dir, provider, env, "fetch", path)
	var answer struct {
		Result map[string]string
		Error  *string
	}
	ok := decode(out, &answer)
	switch {
	case ok && answer.Error != nil && *answer.Error != "":
		return nil, fault.New(fault.Invalid, "the provider reports: %s", quoted(*answer.Error, answer.Result))
	case failed != nil:
		return nil, failed
	case !ok:
		return nil, fault.New(fault.Invalid, "the provider did not print a JSON object with result, an object of strings, and error, a string or null")
	case answer.Result == nil:
		return nil, fault.New(fault.Invalid, "the provider printed no result")
	}
	for key, value := range answer.Result {
		if strings.ContainsRune(value, 0) {
			return nil, fault.New(fault.Invalid, "the value of key %q contains a NUL byte", key)
		}
	}
	return answer.Result, nil
}

// decode reads exactly one JSON object. It does not return the error of the decoder, which may quote a value.
func decode(out []byte, into any) bool {
	d := json.NewDecoder(bytes.NewReader(out))
	if d.Decode(into) != nil {
		return false
	}
	_, err := d.Token()
	return errors.Is(err, io.EOF) && bytes.HasPrefix(bytes.TrimSpace(out), []byte("{"))
}

// quoted is the error of an executable as one line of limited length, without values that it printed too.
func quoted(text string, values map[string]string) string {
	text = Hide(text, values)
	text = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
	if len(text) > textMax {
		text = strings.ToValidUTF8(text[:textMax], "") + "..."
	}
	return text
}

// run runs an executable and returns what it prints, also when it fails. All of its processes have ended then.
func run(ctx context.Context, dir, provider string, env []string, args ...string) ([]byte, error) {
	program, err := executable(dir, provider)
	if err != nil {
		return nil, err
	}
	select {
	case running <- struct{}{}:
		defer func() { <-running }()
	case <-ctx.Done():
		return nil, fault.New(fault.Invalid, "waited too long for other providers to end")
	}
	runtime.LockOSThread() // the executable is killed when the thread that started it ends
	defer runtime.UnlockOSThread()
	limited, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out := &output{full: func() { stop(errTooMuch) }}
	c := command(limited, program, env, args, out)
	if err = c.Run(); errors.Is(err, syscall.EPERM) && c.Process == nil { // no right to make a pid namespace
		c = command(limited, program, env, args, out)
		c.SysProcAttr.Cloneflags = 0
		err = c.Run()
	}
	if c.Process != nil {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // what it left in its group
	}
	var exit *exec.ExitError
	switch {
	case errors.Is(context.Cause(limited), errTooMuch):
		return nil, errTooMuch
	case ctx.Err() != nil:
		return nil, fault.New(fault.Invalid, "the provider was killed because it did not end in time, which is %s", fetchMax)
	case errors.As(err, &exit):
		return out.b.Bytes(), fault.New(fault.Invalid, "the provider failed: %s", exit.ProcessState)
	case err != nil:
		return nil, fault.New(fault.Invalid, "run the provider: %w", err)
	}
	return out.b.Bytes(), nil
}

var errTooMuch = fault.New(fault.Invalid, "the provider was killed because it printed more than %d bytes", outputMax)

// executable returns the path of a provider, which only the node's operator may have written.
func executable(dir, provider string) (string, error) {
	if err := ids.CheckProvider(provider); err != nil {
		return "", fault.Wrap(fault.Invalid, err)
	}
	path := filepath.Join(dir, provider)
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fault.New(fault.Invalid, "this node has no such provider: install %s", path)
	case err != nil:
		return "", fault.New(fault.Invalid, "look for the provider: %w", err)
	case !st.Mode().IsRegular() || st.Mode()&0o111 == 0:
		return "", fault.New(fault.Invalid, "%s is not an executable file", path)
	case st.Mode()&0o022 != 0:
		return "", fault.New(fault.Invalid, "%s is writable by others than its owner: run chmod go-w", path)
	}
	return path, nil
}

func command(ctx context.Context, program string, env, args []string, out io.Writer) *exec.Cmd {
	c := exec.CommandContext(ctx, program, args...)
	c.Env = append([]string{"PATH=" + os.Getenv("PATH"), "CPI_OPERATION=" + args[0]}, env...)
	c.Dir, c.Stdout, c.WaitDelay = filepath.Dir(program), out, drainMax
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		c.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID
	}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	return c
}

// output keeps what an executable prints, up to a limit.
type output struct {
	b    bytes.Buffer
	full func()
}

func (o *output) Write(p []byte) (int, error) {
	if o.b.Len()+len(p) > outputMax {
		o.full()
		return 0, errTooMuch
	}
	return o.b.Write(p)
}
