// Command driver is a CSI driver for tests of faults: the embedded driver, whose calls are delayed, refused, lost and
// recorded by a script.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/faults/script"
	"github.com/open-nomad/open-nomad/plugins/csi/hostpath"
)

func main() {
	dir := flag.String("state-dir", "", "state directory, shared by all nodes")
	node := flag.String("node-id", "", "name of the node")
	fuse := flag.Bool("fuse", false, "publish volumes by a FUSE file system")
	device := flag.String("disk", "", "a block device that all nodes mount as each volume")
	kind := flag.String("fs", "ext4", "the file system of that device")
	attach := flag.Bool("attach", false, "attach volumes to nodes")
	how := flag.String("odd", "", "bind volumes early, over what is mounted, shared, or unmount them lazily")
	files := flag.Bool("serve", false, "serve such a file system; the arguments are source and target")
	flag.Parse()
	var err error
	if *files {
		err = serveFiles(flag.Arg(0), flag.Arg(1))
	} else {
		var own map[string]own
		if *fuse {
			own = byFUSE
		} else if *how != "" {
			own = (&odd{how: *how, dir: *dir}).does()
		} else if *device != "" {
			own = (&disk{device: *device, kind: *kind, dir: *dir, node: *node}).does()
		}
		err = serve(*dir, *node, *attach, own)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "faulty driver:", err)
		os.Exit(1)
	}
}

// serve serves the driver, once nothing keeps it down.
func serve(dir, node string, attach bool, own map[string]own) error {
	for {
		if _, err := os.Stat(script.DownFile(dir, node)); err != nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	p := &player{dir: dir, node: node, own: own}
	return hostpath.Run(context.Background(), hostpath.Config{StateDir: dir, NodeID: node, Attach: attach, Intercept: p.serve})
}
