package main

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// Codes of gRPC that the driver itself returns.
const (
	internal        = 13
	unauthenticated = 16
)

// Places of paths in the requests of publishing and unpublishing.
const (
	publishStaging, publishTarget, unpublishTarget = 3, 4, 2
)

// publish mounts a file system of its own over the target, which shows what is staged. A process beside the
// driver serves it, as with most drivers of this kind.
func publish(message []byte) error {
	staging, target := text(message, publishStaging), text(message, publishTarget)
	if mounted(target) {
		return nil
	}
	if err := os.Mkdir(target, 0o750); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	server := exec.Command(self, "-serve", staging, target)
	server.Stdout, server.Stderr = os.Stdout, os.Stderr
	if err := server.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !mounted(target) {
		select {
		case err := <-ended:
			return fmt.Errorf("the file system ended: %w", err)
		case <-tick.C:
		}
	}
	return nil
}

// unpublish takes the mount away and then the directory. One that no longer exists is an error, which the
// specification forbids and many drivers of this kind do.
func unpublish(message []byte) error {
	target := text(message, unpublishTarget)
	if !mounted(target) {
		if _, err := os.Lstat(target); err != nil {
			return err
		}
		return os.Remove(target)
	}
	if err := syscall.Unmount(target, 0); err != nil {
		return fmt.Errorf("unmount %s: %w", target, err)
	}
	return os.Remove(target)
}

func mounted(path string) bool {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return false
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if words := strings.Fields(s.Text()); len(words) > 4 && words[4] == path {
			return true
		}
	}
	return false
}

// serveFiles shows a directory at another place until that is unmounted.
func serveFiles(source, target string) error {
	root, err := fs.NewLoopbackRoot(source)
	if err != nil {
		return err
	}
	server, err := fs.Mount(target, root, &fs.Options{MountOptions: fuse.MountOptions{
		AllowOther: true, DirectMountStrict: true, FsName: "faulty", Name: "loopback",
	}})
	if err != nil {
		return err
	}
	server.Wait()
	return nil
}

// byFUSE are the calls that a driver of that kind carries out itself.
var byFUSE = map[string]func([]byte) error{"NodePublishVolume": publish, "NodeUnpublishVolume": unpublish}

// mounts reports whether the driver carries a call out itself, and does so.
func (p *proxy) mounts(rpc string, body []byte) (answer, bool) {
	do := p.own[rpc]
	if do == nil || len(body) < prefix {
		return answer{}, false
	}
	if err := do(body[prefix:]); err != nil {
		return status(internal, err.Error()), true
	}
	return answer{
		header: http.Header{"Content-Type": {"application/grpc"}}, trailer: http.Header{"Grpc-Status": {"0"}},
		body: slices.Repeat([]byte{0}, prefix),
	}, true
}
