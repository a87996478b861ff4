package volume

import (
	"context"
	"slices"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/findings"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// Doctor is "nomad volume doctor".
func Doctor(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "report what is wrong with volumes, who holds them, and what to do", Args: "[<volume>]", Max: 1, Format: true,
		Description: "Without a volume all volumes of the namespace are examined. The exit code is 0 when all are healthy, 2 when\n" +
			"there are errors or warnings, and 1 when the command fails.\n" +
			"With -fix the safe repairs are made: failed calls are repeated now, nodes are asked to unmount what ended\n" +
			"allocations have left, and claims of ended allocations are released. Nothing is asserted: what a node or a\n" +
			"driver does not confirm stays as it is, and the report names the command that asserts it.",
		Flags: []cli.Flag{
			session.Verbose(),
			&cli.BoolFlag{Name: "fix", Usage: "make the safe repairs; asks first"},
			&cli.BoolFlag{Name: "yes", Usage: "do not ask"},
		},
		Run: doctor,
	}.Command()
}

func doctor(ctx context.Context, s *session.Session) error {
	if s.Bool("yes") && !s.Bool("fix") {
		return fault.New(fault.Invalid, "-yes goes with -fix only")
	}
	id := ""
	if len(s.Args) > 0 {
		v, err := target(ctx, s)
		if err != nil {
			return err
		}
		id = v.ID
	}
	live := s.Live("Examining volumes")
	report, err := s.VolumeDoctor(ctx, id, rest.Query{})
	live.End()
	if err != nil {
		return session.Failed("examining volumes", err)
	}
	if s.Bool("fix") {
		return fix(ctx, s, id, report)
	}
	if s.Formatted() {
		if err := s.Document(report); err != nil {
			return err
		}
		return findings.Result(report.Findings)
	}
	findings.Show(s, report.Findings)
	summary(s, report)
	return findings.Result(report.Findings)
}

func summary(s *session.Session, report *rest.VolumeReport) {
	if len(report.Findings) > 0 {
		s.Println()
	}
	switch n := findings.Count(report.Findings); {
	case report.Volumes == 0:
		s.Println("No CSI volumes")
	case n == 0:
		s.Printf("Volumes examined: %d, all healthy\n", report.Volumes)
	default:
		s.Printf("Volumes examined: %d, errors and warnings: %d\n", report.Volumes, n+report.Omitted)
	}
	if report.Omitted > 0 {
		s.Warnf("%d findings are not shown: examine single volumes or namespaces", report.Omitted)
	}
}

// volumeKey names a volume.
type volumeKey struct{ namespace, id string }

// fix makes the repairs of all volumes with repairable findings, and reports what is left.
func fix(ctx context.Context, s *session.Session, id string, report *rest.VolumeReport) error {
	var repairable []volumeKey
	for _, f := range report.Findings {
		if k := (volumeKey{f.Namespace, f.VolumeID}); f.Repair != "" && !slices.Contains(repairable, k) {
			repairable = append(repairable, k)
		}
	}
	if len(repairable) > 0 {
		if !s.Formatted() {
			findings.Show(s, slices.DeleteFunc(slices.Clone(report.Findings), func(f *api.StorageFinding) bool { return f.Repair == "" }))
			s.Println()
		}
		sure, err := s.Sure("Make the repairs of these findings?", "No repair was made")
		if err != nil || !sure {
			return err
		}
	}
	made := []*rest.VolumeRepairs{}
	for _, k := range repairable {
		out, err := s.In(k.namespace).RepairVolume(ctx, k.id)
		if err != nil {
			return session.Failed("repairing volume "+view.Inline(k.id), err)
		}
		made = append(made, out)
		if !s.Formatted() {
			for _, r := range out.Repairs {
				showRepair(s, k.id, r)
			}
		}
	}
	after, err := s.VolumeDoctor(ctx, id, rest.Query{})
	if err != nil {
		return session.Failed("examining volumes", err)
	}
	if s.Formatted() {
		err := s.Document(struct {
			Made  []*rest.VolumeRepairs
			After *rest.VolumeReport
		}{made, after})
		if err != nil {
			return err
		}
		return findings.Result(after.Findings)
	}
	if len(repairable) == 0 {
		s.Println("There is nothing that -fix can repair")
	}
	if findings.Count(after.Findings) > 0 {
		s.Titled("Left", "")
	}
	findings.Show(s, after.Findings)
	summary(s, after)
	return findings.Result(after.Findings)
}

func showRepair(s *session.Session, id string, r *api.VolumeRepair) {
	if r.Error != "" {
		s.Printf("Volume %q: %s failed: %s\n", id, r.Repair, r.Error)
		return
	}
	s.Printf("Volume %q: %s\n", id, r.Text)
}
