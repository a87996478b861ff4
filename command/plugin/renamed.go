package plugin

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/command/session"
)

// Renamed is "nomad plugin renamed".
func Renamed(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "say that the driver of a plugin has another name by now, and is the same one",
		Args: "<plugin> <former name> <present name>", Min: 3, Max: 3,
		Description: "Volumes, attachments and snapshots are of the driver that made or knew them, by the name that it gives\n" +
			"itself. A driver of another name is not asked about them, for it may have others by the same ids. When the\n" +
			"driver was only renamed, as by an upgrade, your word lets all of them go on with its present name.",
		Run: renamed,
	}.Command()
}

func renamed(ctx context.Context, s *session.Session) error {
	id, former, present := s.Arg(0), s.Arg(1), s.Arg(2)
	if err := s.PluginRenamed(ctx, id, former, present); err != nil {
		return session.Failed("renaming the driver of the plugin", err)
	}
	s.Printf("What was of driver %q of plugin %q is of %q\n", former, id, present)
	return nil
}
