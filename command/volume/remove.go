package volume

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/find"
	"github.com/open-nomad/open-nomad/command/session"
)

// target finds the volume of the first argument and moves the session into its namespace.
func target(ctx context.Context, s *session.Session) (*api.VolumeStub, error) {
	v, err := find.Volume(ctx, s, s.Arg(0))
	if err != nil {
		return nil, err
	}
	s.Client = s.In(v.Namespace)
	return v, nil
}

// Deregister is "nomad volume deregister".
func Deregister(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "forget a volume without touching its provider", Args: "<volume>", Min: 1, Max: 1,
		Flags: []cli.Flag{&cli.BoolFlag{Name: "force", Usage: "even while allocations claim it; asks first"}},
		Run: func(ctx context.Context, s *session.Session) error {
			v, err := target(ctx, s)
			if err != nil {
				return err
			}
			if s.Bool("force") {
				ok, err := s.Sure(fmt.Sprintf("Are you sure you want to force deregister volume %q?", v.ID), "Cancelling volume deregister")
				if err != nil || !ok {
					return err
				}
			}
			live := s.Live("Deregistering the volume")
			err = s.DeregisterVolume(ctx, v.ID, s.Bool("force"))
			live.End()
			if err != nil {
				return session.Failed("deregistering volume", err)
			}
			s.Printf("Successfully deregistered volume %q!\n", v.ID)
			return nil
		},
	}.Command()
}

// Delete is "nomad volume delete".
func Delete(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "delete a volume at its provider and forget it", Args: "<volume>", Min: 1, Max: 1,
		Flags: []cli.Flag{
			secretFlag(),
			&cli.StringFlag{Name: "type", Value: api.VolumeTypeCSI, Usage: "`kind` of the volume: csi or host"},
			&cli.BoolFlag{Name: "force", Usage: "forget a host volume whose node does not respond"},
		},
		Run: func(ctx context.Context, s *session.Session) error {
			switch t := s.String("type"); t {
			case api.VolumeTypeCSI:
			case api.VolumeTypeHost:
				return deleteHost(ctx, s)
			default:
				return fault.New(fault.Invalid, "there are no volumes of type %q, only csi and host", t)
			}
			if s.Bool("force") {
				return fault.New(fault.Invalid, "-force is for host volumes: use nomad volume deregister -force to forget a CSI volume")
			}
			secrets, err := s.KeyValues("secret")
			if err != nil {
				return err
			}
			v, err := target(ctx, s)
			if err != nil {
				return err
			}
			live := s.Live("Deleting the volume")
			err = s.DeleteVolume(ctx, v.ID, secrets)
			live.End()
			if err != nil {
				return session.Failed("deleting volume", err)
			}
			s.Printf("Successfully deleted volume %q!\n", v.ID)
			return nil
		},
	}.Command()
}

func secretFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "secret", Usage: "`key=value` for the plugin; may be repeated"}
}
