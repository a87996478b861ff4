package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

const ownedVolume = `id           = "v1"
name         = "v1"
type         = "csi"
plugin_id    = "hp"
capacity_min = "1MiB"
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
owner {
  uid  = %d
  gid  = 2345
  mode = %q
}
`

// volumeFile writes the file of the volume, owned by the user.
func volumeFile(t *testing.T, uid int, mode string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "v1.hcl")
	if err := os.WriteFile(path, fmt.Appendf(nil, ownedVolume, uid, mode), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// ownerOf waits for a file that matches below the driver's data and tells whose it is.
func ownerOf(t *testing.T, a *kit.Agent, pattern string) string {
	t.Helper()
	var st syscall.Stat_t
	a.Until(10*time.Second, pattern, func() error {
		found, _ := filepath.Glob(filepath.Join(a.Dir, "hp/data", pattern))
		if len(found) != 1 {
			return fmt.Errorf("%d files", len(found))
		}
		return syscall.Lstat(found[0], &st)
	})
	return fmt.Sprintf("%d:%d %04o", st.Uid, st.Gid, st.Mode&0o7777)
}

func TestOwnerOfVolumeAndSubPath(t *testing.T) {
	t.Parallel()
	a := kit.Start(t)
	a.Plugin("hp")
	if out, code := a.Run("volume", "create", volumeFile(t, 1234, "0750")); code != 0 {
		t.Fatalf("create: %s", out)
	}
	job := kit.WithVolume(kit.ShellJob("w", "echo kept > data/file; exec sleep 1000"), "v1")
	a.Register(job)
	a.Running("w", 1)
	if got := ownerOf(t, a, "*/file"); !strings.HasPrefix(got, "0:0") {
		t.Errorf("the task's file is %s", got)
	}
	if got := ownerOf(t, a, "*"); got != "1234:2345 0750" {
		t.Errorf("the volume's root is %s", got)
	}

	// Another owner may be named while the volume is claimed; the next mount has it.
	if out, code := a.Run("volume", "register", volumeFile(t, 4321, "0700")); code != 0 {
		t.Fatalf("register while claimed: %s", out)
	}
	if n := a.Claimed("v1"); n != 1 {
		t.Fatalf("%d claims after the volume was registered again", n)
	}
	a.Stop("w", false)
	a.Free("v1")

	file := filepath.Join(t.TempDir(), "sub.nomad.hcl")
	if err := os.WriteFile(file, []byte(subPathJob), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := a.Run("job", "run", "-detach", file); code != 0 {
		t.Fatalf("run: %s", out)
	}
	a.Running("sub", 1)
	if got := ownerOf(t, a, "*/app/0/file"); !strings.HasPrefix(got, "0:0") {
		t.Errorf("the file in the sub path is %s", got)
	}
	for pattern, want := range map[string]string{"*": "4321:2345 0700", "*/file": "4321:2345", "*/app": "4321:2345 0700", "*/app/0": "4321:2345 0700"} {
		if got := ownerOf(t, a, pattern); !strings.HasPrefix(got, want) {
			t.Errorf("%s is %s, not %s", pattern, got, want)
		}
	}
	a.Stop("sub", false)
	a.Free("v1")
}

const subPathJob = `job "sub" {
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
        args    = ["-c", "echo inside > data/file; exec sleep 1000"]
      }
      volume_mount {
        volume      = "data"
        destination = "data"
        sub_path    = "app/${NOMAD_ALLOC_INDEX}"
      }
    }
  }
}
`
