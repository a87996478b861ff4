package job

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/session"
)

const exampleFile = "example.nomad.hcl"

// Init is "nomad job init".
func Init(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "write an example job file", Args: "[<file>]", Max: 1, Offline: true,
		Flags: []cli.Flag{&cli.BoolFlag{Name: "short", Usage: "without comments"}, &cli.BoolFlag{Name: "connect", Hidden: true}},
		Run: func(_ context.Context, s *session.Session) error {
			path := s.Arg(0)
			if path == "" {
				path = exampleFile
			}
			text := exampleLong
			if s.Bool("short") {
				text = exampleShort
			}
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
			if errors.Is(err, fs.ErrExist) {
				return fault.New(fault.Conflict, "Job file %q already exists", path)
			}
			if err != nil {
				return fault.New(fault.Invalid, "write %w", err)
			}
			if _, err := f.WriteString(text); err != nil {
				return errors.Join(err, f.Close())
			}
			s.Println("Example job file written to", path)
			return f.Close()
		},
	}.Command()
}

const exampleShort = `job "example" {
  group "app" {
    volume "data" {
      type            = "csi"
      source          = "example"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }

    task "hello" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "while true; do date >> data/log; sleep 5; done"]
      }

      volume_mount {
        volume      = "data"
        destination = "data"
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
`

const exampleLong = `# A job is one or more groups of tasks that the cluster keeps running.
# Register it with: nomad job run example.nomad.hcl
job "example" {
  # service runs until it is stopped; batch runs to its end; system runs on every node.
  type = "service"

  group "app" {
    # How many instances of the group run.
    count = 1

    # A volume that was made with: nomad volume create volume.hcl
    # Remove this block and volume_mount below if there is none.
    volume "data" {
      type            = "csi"
      source          = "example"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }

    # What happens to a task that fails.
    restart {
      attempts = 2
      interval = "30m"
      delay    = "15s"
      mode     = "fail"
    }

    task "hello" {
      # raw_exec runs a program of the host without isolation.
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "while true; do date >> data/log; sleep 5; done"]
      }

      # A relative destination lies under the task's directory.
      volume_mount {
        volume      = "data"
        destination = "data"
      }

      resources {
        cpu    = 100 # MHz
        memory = 64  # MiB
      }
    }
  }
}
`
