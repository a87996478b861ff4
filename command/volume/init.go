package volume

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/session"
)

// Init is "nomad volume init".
func Init(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "write an example volume file", Args: "[<file>]", Max: 1, Offline: true,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "in JSON"},
			&cli.StringFlag{Name: "type", Value: api.VolumeTypeCSI, Usage: "`kind` of the volume: csi"},
		},
		Run: func(_ context.Context, s *session.Session) error {
			if t := s.String("type"); t != api.VolumeTypeCSI {
				return fault.New(fault.Invalid, "there is no example of type %q, only csi", t)
			}
			path, text := "volume.hcl", exampleHCL
			if s.Bool("json") {
				path, text = "volume.json", exampleJSON
			}
			if s.Arg(0) != "" {
				path = s.Arg(0)
			}
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o660)
			if errors.Is(err, fs.ErrExist) {
				return fault.New(fault.Conflict, "Volume file %q already exists", path)
			}
			if err != nil {
				return fault.New(fault.Invalid, "write %w", err)
			}
			if _, err := f.WriteString(text); err != nil {
				return errors.Join(err, f.Close())
			}
			s.Println("Example volume specification written to", path)
			return f.Close()
		},
	}.Command()
}

const exampleHCL = `# Create this volume with: nomad volume create volume.hcl
id        = "example"
name      = "example"
namespace = "default"
type      = "csi"
plugin_id = "hostpath"

# The provider's id of a volume that exists: for nomad volume register.
# external_id = "vol-23452345"

# Fill the new volume from a snapshot or another volume.
# snapshot_id = "snap-12345"
# clone_id    = "vol-abcdef"

capacity_min = "10MiB"
capacity_max = "1GiB"

# Ways in which the volume may be used; at least one.
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}

capability {
  access_mode     = "single-node-reader-only"
  attachment_mode = "file-system"
}

# mount_options {
#   fs_type     = "ext4"
#   mount_flags = ["noatime"]
# }

# Where the volume must and should be reachable from.
# topology_request {
#   required {
#     topology { segments { zone = "a" } }
#   }
#   preferred {
#     topology { segments { rack = "1" } }
#   }
# }

# What the plugin needs to know. Secrets are never shown again.
# secrets {
#   key = "value"
# }
# parameters {
#   tier = "fast"
# }
# context {
#   endpoint = "http://192.168.1.101:9425"
# }
`

const exampleJSON = `{
  "id": "example",
  "name": "example",
  "namespace": "default",
  "type": "csi",
  "plugin_id": "hostpath",
  "capacity_min": "10MiB",
  "capacity_max": "1GiB",
  "capability": [
    {
      "access_mode": "single-node-writer",
      "attachment_mode": "file-system"
    },
    {
      "access_mode": "single-node-reader-only",
      "attachment_mode": "file-system"
    }
  ]
}
`
