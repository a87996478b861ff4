package volume

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/session"
)

// Detach is "nomad volume detach".
func Detach(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "end what a volume has on a node: claims, attachment, abandoned mounts",
		Args: "<volume> <node>", Min: 0, Max: 2,
		Description: "The node is asked to unmount, and the storage detaches the volume after that. With -force your word\n" +
			"ends claim and attachment and frees the volume, whatever node and driver report: make sure that nothing\n" +
			"on the node can write to it. A node that is alive and has it mounted keeps it, unless you repeat -force.\n" +
			"A volume that no specification names is given by -plugin and -external-id, with the node as the only\n" +
			"argument. See 'nomad volume attachments'.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "force", Usage: "you know that the node no longer uses the volume, for example because it is off"},
			&cli.StringFlag{Name: "reason", Usage: "`text` that is recorded with -force"},
			&cli.StringFlag{Name: "plugin", Usage: "`plugin` of a volume that is not registered any more"},
			&cli.StringFlag{Name: "external-id", Usage: "the driver's `id` of a volume that is not registered any more"},
		},
		Run: detach,
	}.Command()
}

func detach(ctx context.Context, s *session.Session) error {
	a := rest.Assertion{Force: s.Bool("force"), Reason: s.String("reason")}
	if a.Reason != "" && !a.Force {
		return fault.New(fault.Invalid, "-reason goes with -force only")
	}
	if s.IsSet("plugin") || s.IsSet("external-id") {
		return detachExternal(ctx, s, a)
	}
	if len(s.Args) != 2 {
		return fault.New(fault.Invalid, "This command takes 2 arguments: <volume> <node>, or <node> alone with -plugin and -external-id")
	}
	v, err := target(ctx, s)
	if err != nil {
		return err
	}
	id, err := nodeOf(ctx, s, s.Arg(1), v.ID)
	if err != nil {
		return err
	}
	live := s.Live("Detaching the volume")
	warnings, err := s.DetachVolume(ctx, v.ID, id, a)
	live.End()
	if err != nil {
		return session.Failed("detaching volume", err)
	}
	s.Printf("Volume %q detached from node %q\n", v.ID, id)
	warn(s, warnings)
	return nil
}

func detachExternal(ctx context.Context, s *session.Session, a rest.Assertion) error {
	plugin, external := s.String("plugin"), s.String("external-id")
	if plugin == "" || external == "" || len(s.Args) != 1 {
		return fault.New(fault.Invalid, "-plugin and -external-id go together, with the node as the only argument")
	}
	node, err := nodeOf(ctx, s, s.Arg(0), "")
	if err != nil {
		return err
	}
	live := s.Live("Detaching the volume")
	warnings, err := s.DetachExternal(ctx, plugin, external, node, a)
	live.End()
	if err != nil {
		return session.Failed("detaching volume", err)
	}
	s.Printf("External volume %q detached from node %q\n", external, node)
	warn(s, warnings)
	return nil
}
