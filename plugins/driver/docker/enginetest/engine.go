// Package enginetest runs Docker engines for tests: each has directories and a socket of its own, no bridge and no rules
// in the firewall. It builds the images of tests, since none can be downloaded.
package enginetest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"
)

// Image is the name of the image that each engine has. Its program is testdata/task.
const Image = "localhost/task:v1"

const startMax = time.Minute

// ErrMissing means that no engine can run here.
var ErrMissing = errors.New("no docker engine can run here")

// Engine is a running engine.
type Engine struct {
	// Host is its address as DOCKER_HOST has it.
	Host   string
	Client *client.Client
	// Program is the path of the program in the image.
	Program string

	dir     string
	process *exec.Cmd
	output  *bytes.Buffer
}

// Start runs an engine with its files in a directory, which has a short path, and gives it the image.
func Start(dir string) (*Engine, error) {
	for _, program := range []string{"dockerd", "containerd", "runc"} {
		if _, err := exec.LookPath(program); err != nil || os.Geteuid() != 0 {
			return nil, fmt.Errorf("%w: it needs root and %s", ErrMissing, program)
		}
	}
	e := &Engine{dir: dir, Host: "unix://" + filepath.Join(dir, "docker.sock"), Program: filepath.Join(dir, "task")}
	if err := build(e.Program); err != nil {
		return nil, err
	}
	var err error
	if e.Client, err = client.New(client.WithHost(e.Host)); err != nil {
		return nil, err
	}
	if err := e.Run(); err != nil {
		lines := strings.Split(strings.TrimSpace(e.Output()), "\n")
		return nil, errors.Join(fmt.Errorf("%w: %w: %s", ErrMissing, err, lines[len(lines)-1]), e.Stop())
	}
	archive, err := Archive(Image, e.Program)
	if err == nil {
		err = e.Load(archive)
	}
	if err != nil {
		return nil, errors.Join(err, e.Stop())
	}
	return e, nil
}

// build compiles the program of the image.
func build(to string) error {
	source, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/open-nomad/open-nomad/plugins/driver/docker/enginetest").Output()
	if err != nil {
		return fmt.Errorf("find the program of the image: %w", err)
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", to, "./testdata/task")
	cmd.Dir = strings.TrimSpace(string(source))
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the program of the image: %w: %s", err, out)
	}
	return nil
}

// Load gives the engine an archive of images.
func (e *Engine) Load(archive []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), startMax)
	defer cancel()
	reply, err := e.Client.ImageLoad(ctx, bytes.NewReader(archive))
	if err != nil {
		return err
	}
	defer reply.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(reply); err != nil {
		return err
	}
	if strings.Contains(text.String(), "errorDetail") {
		return fmt.Errorf("load image: %s", text.String())
	}
	return nil
}

// Run starts the engine, also after [Engine.Kill].
func (e *Engine) Run() error {
	e.output = &bytes.Buffer{}
	e.process = exec.Command(
		"dockerd", "--data-root", e.dir+"/data", "--exec-root", e.dir+"/exec", "--pidfile", e.dir+"/pid", "-H", e.Host,
		"--storage-driver", "vfs", "--iptables=false", "--ip-masq=false", "--ip-forward=false", "--bridge=none", "--live-restore", "--shutdown-timeout=1",
	)
	e.process.Stdout, e.process.Stderr = e.output, e.output
	if err := e.process.Start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startMax)
	defer cancel()
	for {
		if _, err := e.Client.Ping(ctx, client.PingOptions{}); err == nil {
			return nil
		} else if ctx.Err() != nil || e.process.ProcessState != nil {
			return fmt.Errorf("start dockerd: %w", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Kill ends the engine alone: its containers run on.
func (e *Engine) Kill() error {
	_ = e.process.Process.Kill()
	_ = e.process.Wait()
	return e.endContainerd()
}

// endContainerd ends the containerd that the engine has started, which would not serve another one.
func (e *Engine) endContainerd() error {
	text, err := os.ReadFile(e.dir + "/exec/containerd/containerd.pid")
	if err != nil {
		return nil
	}
	var pid int
	if _, err := fmt.Sscan(string(text), &pid); err != nil {
		return err
	}
	name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if strings.TrimSpace(string(name)) != "containerd" {
		return nil
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	for end := time.Now().Add(startMax); syscall.Kill(pid, 0) == nil && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	return nil
}

// Stop removes all containers, ends the engine and unmounts what it has left.
func (e *Engine) Stop() error {
	if e.process == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), startMax)
	defer cancel()
	list, _ := e.Client.ContainerList(ctx, client.ContainerListOptions{All: true})
	for _, c := range list.Items {
		_, _ = e.Client.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	}
	_ = e.process.Process.Signal(syscall.SIGTERM)
	ended := time.AfterFunc(startMax/2, func() { _ = e.process.Process.Kill() })
	_ = e.process.Wait()
	ended.Stop()
	_ = e.endContainerd()
	_ = e.Client.Close()
	return e.unmount()
}

func (e *Engine) unmount() error {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	defer f.Close()
	var points []string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if point := strings.Fields(lines.Text())[4]; strings.HasPrefix(point, e.dir+"/") {
			points = append(points, point)
		}
	}
	var errs []error
	for _, point := range slices.Backward(points) {
		errs = append(errs, unix.Unmount(point, unix.MNT_DETACH))
	}
	return errors.Join(errs...)
}

// Output is what the engine has logged.
func (e *Engine) Output() string { return e.output.String() }
