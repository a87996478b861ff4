package kit_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

func TestLabIsCutAndHealed(t *testing.T) {
	own := fmt.Sprintf("k%xx", os.Getpid()) // other packages have labs at the same time
	left := func() (lines string) {
		out, _ := exec.Command("sh", "-c", "ip netns list; ip -o link show type bridge; ip -o link show type veth").CombinedOutput()
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, own) {
				lines += line
			}
		}
		return lines
	}
	var dir string
	var pids []int
	before := left()
	t.Run("hosts", func(t *testing.T) {
		lab := kit.NewLab(t)
		dir = lab.Dir
		server, node := lab.Host("s1"), lab.Host("n1")
		server.Serve([]*kit.Host{server}, kit.Quick)
		node.Work([]*kit.Host{server}, "")
		server.Ready(1)
		server.Register(kit.ShellJob("w", "exec sleep 1000"))
		server.Running("w", 1)

		status := func(want string) {
			t.Helper()
			t.Logf("%s after %v", want, server.Until(20*time.Second, "the node to be "+want, func() error {
				if got := node.NodeStatus(server); got != want {
					return fmt.Errorf("it is %s", got)
				}
				return nil
			}))
		}
		node.Cut()
		status("down")
		node.Heal()
		status("ready")
		lab.Partition(server, node)
		status("down")
		lab.Join(server, node)
		status("ready")
		server.Until(30*time.Second, "the task to run again", func() error {
			if pids = append(node.Processes(), node.PID(), server.PID()); len(pids) < 3 {
				return fmt.Errorf("processes %v", pids)
			}
			return nil
		})
	})
	if dir == "" {
		t.Skip("no lab, see above")
	}
	if now := left(); now != before {
		t.Errorf("left behind: %s", now)
	}
	for _, pid := range pids {
		if kit.Lives(pid) {
			t.Errorf("process %d is left", pid)
		}
	}
	if out, _ := exec.Command("grep", dir, "/proc/self/mountinfo").Output(); strings.TrimSpace(string(out)) != "" {
		t.Errorf("mounts are left: %s", out)
	}
}

func TestLabSweepsWhatAKilledTestLeft(t *testing.T) {
	// No process has this id: it is above the kernel's limit.
	const dead = "kffffffx1"
	kit.NewLab(t) // skips where labs do not work
	dir, err := os.MkdirTemp("", dead)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("ip", "netns", "add", dead+"-n1").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	left := exec.Command("sleep", "1000")
	left.Env = append(os.Environ(), "OF="+dir+"/n1")
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	kit.Sweep(t)
	if err := left.Wait(); err == nil {
		t.Error("the process ended by itself")
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory is left: %v", err)
	}
	if out, _ := exec.Command("ip", "netns", "list").Output(); strings.Contains(string(out), dead) {
		t.Error("the namespace is left")
	}
}
