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
	"github.com/open-nomad/open-nomad/jobspec/examples"
)

// Init is "nomad volume init".
func Init(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "write an example volume file", Args: "[<file>]", Max: 1, Offline: true,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "in JSON"},
			&cli.StringFlag{Name: "type", Value: api.VolumeTypeCSI, Usage: "`kind` of the volume: csi or host"},
		},
		Run: func(_ context.Context, s *session.Session) error {
			hcl, json := examples.Volume, examples.VolumeJSON
			switch t := s.String("type"); t {
			case api.VolumeTypeCSI:
			case api.VolumeTypeHost:
				hcl, json = examples.HostVolume, examples.HostVolumeJSON
			default:
				return fault.New(fault.Invalid, "there is no example of type %q, only csi and host", t)
			}
			path, text := "volume.hcl", hcl
			if s.Bool("json") {
				path, text = "volume.json", json
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
