package volume

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/find"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// Widths of ids in the table of snapshots.
const (
	sourceShort = 12
	sourceLong  = 30
	snapshotsOn = 30
)

// SnapshotCreate is "nomad volume snapshot create".
func SnapshotCreate(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "make a snapshot of a volume", Args: "<volume> [<snapshot name>]", Min: 1, Max: 2,
		Flags: []cli.Flag{
			session.Verbose(), secretFlag(),
			&cli.StringSliceFlag{Name: "parameter", Usage: "`key=value` for the plugin; may be repeated"},
		},
		Run: func(ctx context.Context, s *session.Session) error {
			secrets, err := s.KeyValues("secret")
			if err != nil {
				return err
			}
			parameters, err := s.KeyValues("parameter")
			if err != nil {
				return err
			}
			v, err := target(ctx, s)
			if err != nil {
				return err
			}
			live := s.Live("Creating the snapshot")
			out, err := s.CreateSnapshot(ctx, &api.Snapshot{SourceVolumeID: v.ID, Name: s.Arg(1), Secrets: secrets, Parameters: parameters})
			live.End()
			if err != nil {
				return session.Failed("snapshotting volume", err)
			}
			s.Print(snapshots(s, out.Snapshots))
			return nil
		},
	}.Command()
}

// SnapshotDelete is "nomad volume snapshot delete".
func SnapshotDelete(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "delete a snapshot at its provider", Args: "<plugin> <snapshot>", Min: 2, Max: 2,
		Description: "The snapshot is named by the id that its driver gave it. One that is being made, and has no id yet,\n" +
			"is named by its name: it is deleted as soon as the driver has reported its id. With -force whatever is\n" +
			"intended with the snapshot is forgotten, and no driver is asked: look for it at the provider.",
		Flags: []cli.Flag{
			secretFlag(),
			&cli.BoolFlag{Name: "force", Usage: "forget the snapshot, whose driver does not answer"},
		},
		Run: func(ctx context.Context, s *session.Session) error {
			secrets, err := s.KeyValues("secret")
			if err != nil {
				return err
			}
			plugin, force := s.Arg(0), s.Bool("force")
			// The id of a plugin that no longer exists is used as it is typed.
			if p, err := find.Plugin(ctx, s, plugin); err == nil {
				plugin = p.ID
			} else if !force || !errors.Is(err, fault.NotFound) {
				return err
			}
			live := s.Live("Deleting the snapshot")
			warnings, err := s.DeleteSnapshot(ctx, plugin, s.Arg(1), secrets, force)
			live.End()
			switch {
			case err != nil:
				return session.Failed("deleting snapshot", err)
			case force:
				s.Printf("Forgot snapshot %q\n%s\n", s.Arg(1), warnings)
			default:
				s.Printf("Deleted snapshot %q\n", s.Arg(1))
			}
			return nil
		},
	}.Command()
}

// SnapshotList is "nomad volume snapshot list".
func SnapshotList(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "list the snapshots of a provider",
		Flags: []cli.Flag{
			session.Verbose(), secretFlag(),
			&cli.StringFlag{Name: "plugin", Usage: "`plugin` of the provider"},
			&cli.IntFlag{Name: "per-page", Value: snapshotsOn, Usage: "`rows` per page"},
			&cli.StringFlag{Name: "page-token", Usage: "`token` of the page"},
		},
		Run: snapshotList,
	}.Command()
}

func snapshotList(ctx context.Context, s *session.Session) error {
	if s.String("plugin") == "" {
		return fault.New(fault.Invalid, "-plugin is missing: name the plugin whose snapshots to list")
	}
	secrets, err := s.KeyValues("secret")
	if err != nil {
		return err
	}
	p, err := find.Plugin(ctx, s, s.String("plugin"))
	if err != nil {
		return err
	}
	live := s.Live("Listing snapshots")
	out, err := s.Snapshots(ctx, p.ID, secrets, rest.Query{PerPage: s.Int("per-page"), NextToken: s.String("page-token")})
	live.End()
	if err != nil {
		return session.Failed("querying snapshots", err)
	}
	if len(out.Snapshots) == 0 {
		s.Warnf("No snapshots")
	} else {
		s.Print(snapshots(s, out.Snapshots))
	}
	showUnderWay(s, out.UnderWay)
	if out.NextToken != "" {
		s.Printf("\nThere are more: nomad volume snapshot list -plugin %s -page-token %s\n", p.ID, out.NextToken)
	}
	return nil
}

// showUnderWay prints the snapshots that their driver has not made or deleted yet, and how each is ended.
func showUnderWay(s *session.Session, list []*api.SnapshotUnderWay) {
	if len(list) == 0 {
		return
	}
	var errs []session.Reason
	table := [][]string{{"Name", "Snapshot ID", "State", "Since", "Last Error", "Ended By"}}
	for _, x := range list {
		table = append(table, []string{x.Name, view.OrNone(x.SnapshotID), x.State, s.When(x.Since), view.OrNone(short(s, x.LastError)), x.Remedy})
		errs = append(errs, session.Reason{Of: "snapshot " + x.Name, Text: x.LastError})
	}
	s.Section("Snapshots Under Way", table...)
	s.Reasons(errs)
}

func snapshots(s *session.Session, list []*api.Snapshot) string {
	width := sourceShort
	if s.Verbose {
		width = sourceLong
	}
	table := [][]string{{"Snapshot ID", "Volume ID", "Size", "Create Time", "Ready?"}}
	for _, x := range list {
		source := x.ExternalSourceVolumeID
		if len(source) > width {
			source = source[:width]
		}
		table = append(table, []string{x.ID, source, view.Bytes(x.SizeBytes), view.Time(time.Unix(x.CreateTime, 0)), strconv.FormatBool(x.IsReady)})
	}
	return view.Table(table...)
}
