// Command driver is a CSI driver for tests of faults: it runs the embedded driver of the nomad
// binary and stands between it and the agent, where it delays, refuses, swallows and records calls
// by a script.
package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/faults/script"
)

func main() {
	nomad := flag.String("nomad", "", "the nomad binary")
	dir := flag.String("state-dir", "", "state directory, shared by all nodes")
	node := flag.String("node-id", "", "name of the node")
	fuse := flag.Bool("fuse", false, "publish volumes by a FUSE file system")
	device := flag.String("disk", "", "a block device that all nodes mount as each volume")
	kind := flag.String("fs", "ext4", "the file system of that device")
	how := flag.String("odd", "", "bind volumes early, over what is mounted, shared, or unmount them lazily")
	files := flag.Bool("serve", false, "serve such a file system; the arguments are source and target")
	flag.Parse()
	var err error
	if *files {
		err = serveFiles(flag.Arg(0), flag.Arg(1))
	} else {
		own := map[string]func([]byte) error{}
		if *fuse {
			own = byFUSE
		} else if *how != "" {
			own = (&odd{how: *how, dir: *dir}).does()
		} else if *device != "" {
			own = (&disk{device: *device, kind: *kind, dir: *dir, node: *node}).does()
		}
		err = serve(*nomad, *dir, *node, own, flag.Args())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "faulty driver:", err)
		os.Exit(1)
	}
}

func serve(nomad, dir, node string, own map[string]func([]byte) error, more []string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for {
		if _, err := os.Stat(script.DownFile(dir, node)); err != nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	inner := filepath.Join(dir, node+".sock")
	args := append([]string{"csi-hostpath", "-state-dir", dir, "-node-id", node, "-endpoint", "unix://" + inner}, more...)
	child := exec.Command(nomad, args...)
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := child.Start(); err != nil {
		return err
	}
	ended := make(chan error, 2)
	go func() { ended <- child.Wait() }()
	for i := 0; ; i++ {
		c, err := net.Dial("unix", inner)
		if err == nil {
			_ = c.Close()
			break
		}
		if i > 200 {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}

	socket := strings.TrimPrefix(os.Getenv("CSI_ENDPOINT"), "unix://")
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	s := &http.Server{Handler: newProxy(dir, node, inner, own), Protocols: plainHTTP2()}
	go func() { ended <- s.Serve(l) }()
	return <-ended
}

func plainHTTP2() *http.Protocols {
	p := &http.Protocols{}
	p.SetUnencryptedHTTP2(true)
	return p
}
