package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// shownOwnerJob mounts a volume of root twice, once with another owner, and gives that one a file.
const shownOwnerJob = `job "shown" {
  group "g" {
    volume "data" {
      type            = "csi"
      source          = "v1"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }
    task "main" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo inside > data/file; chown 65534:65534 data/file; stat -c %u:%g data data/file plain; exec sleep 1000"]
      }
      volume_mount {
        volume      = "data"
        destination = "data"
        owner       = "65534:65534"
      }
      volume_mount {
        volume      = "data"
        destination = "plain"
      }
    }
  }
}
`

func TestTaskSeesAnotherOwnerOfAVolume(t *testing.T) {
	t.Parallel()
	a := kit.Start(t)
	a.Plugin("hp")
	if out, code := a.Run("volume", "create", volumeFile(t, 0, "0700")); code != 0 {
		t.Fatalf("create: %s", out)
	}
	file := filepath.Join(t.TempDir(), "shown.nomad.hcl")
	if err := os.WriteFile(file, []byte(shownOwnerJob), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := a.Run("job", "run", "-detach", file); code != 0 {
		t.Fatalf("run: %s", out)
	}
	id := a.Running("shown", 1).ID
	a.Until(30*time.Second, "owners in the log", func() error {
		const want = "65534:65534\n65534:65534\n0:2345\n"
		if out, _ := a.Run("alloc", "logs", id); out != want {
			return fmt.Errorf("the task saw %q, want %q", out, want)
		}
		return nil
	})
	if got := ownerOf(t, a, "*/file"); !strings.HasPrefix(got, "0:2345") {
		t.Errorf("the task's file is %s on the volume", got)
	}
	a.Stop("shown", false)
	a.Free("v1")
}
