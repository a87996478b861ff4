package volume

import (
	"context"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// Create is "nomad volume create".
func Create(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "create a volume at its provider, or on a node, and register it", Args: "<file>", Min: 1, Max: 1,
		Flags: []cli.Flag{
			session.Verbose(), session.Detach(),
			&cli.StringFlag{Name: "id", Usage: "`id` of the volume, instead of that in the file"},
			&cli.BoolFlag{Name: "policy-override", Hidden: true},
		},
		Run: create,
	}.Command()
}

func create(ctx context.Context, s *session.Session) error {
	v, host, err := readSpec(s)
	if err != nil {
		return err
	}
	if host != nil {
		return createHost(ctx, s, host)
	}
	live := s.Live("Creating the volume")
	out, err := s.CreateVolume(ctx, v)
	live.End()
	if err != nil {
		return session.Failed("creating volume", err)
	}
	warn(s, out.Warnings)
	if len(out.Volumes) == 0 {
		return fault.New(fault.Internal, "the server created no volume")
	}
	for _, made := range out.Volumes {
		external := made.ExternalID
		if external == "" {
			external = made.VolumeSpec.ExternalID
		}
		if slices.Contains(out.Known, made.ID) {
			s.Printf("Volume %q was known already, as external volume %s: its specification was updated and nothing was created\n", made.ID, external)
			continue
		}
		s.Printf("Created external volume %s with ID %s\n", external, made.ID)
	}
	return nil
}

func warn(s *session.Session, warnings string) {
	if warnings != "" {
		s.Print("Volume Warnings:\n", view.Indent(strings.TrimRight(warnings, "\n"), 2), "\n\n")
	}
}

// Register is "nomad volume register".
func Register(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "register a volume that exists at its provider, or a directory of a node", Args: "<file>", Min: 1, Max: 1,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "id", Usage: "`id` of the volume, instead of that in the file"},
			&cli.BoolFlag{Name: "policy-override", Hidden: true},
		},
		Run: func(ctx context.Context, s *session.Session) error {
			v, host, err := readSpec(s)
			if err != nil {
				return err
			}
			if host != nil {
				return registerHost(ctx, s, host)
			}
			live := s.Live("Registering the volume")
			out, err := s.RegisterVolume(ctx, v)
			live.End()
			if err != nil {
				return session.Failed("registering volume", err)
			}
			warn(s, out.Warnings)
			s.Printf("Volume %q registered\n", v.ID)
			return nil
		},
	}.Command()
}
