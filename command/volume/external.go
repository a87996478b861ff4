package volume

import (
	"context"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

const (
	// externalPage is how many volumes a provider is asked for at once, externalMax how many are shown of one.
	externalPage = 500
	externalMax  = 10_000
)

// listExternal lists the volumes at the provider of each plugin, or of one. A provider that cannot list them is
// passed over with the reason.
func listExternal(ctx context.Context, s *session.Session, only string) error {
	plugins, _, err := s.Plugins(ctx, rest.Query{})
	if err != nil {
		return session.Failed("querying CSI plugins", err)
	}
	for _, p := range plugins {
		if only != "" && p.ID != only {
			continue
		}
		volumes, err := external(ctx, s, p.ID)
		s.Printf("\nExternal Volumes of Plugin %q\n", p.ID)
		if len(volumes) > 0 {
			s.Print(externalTable(volumes))
		}
		switch {
		case err != nil && len(volumes) > 0:
			s.Printf("Not all are listed: %s\n", view.Line(err.Error()))
		case err != nil:
			s.Printf("They cannot be listed: %s\n", view.Line(err.Error()))
		case len(volumes) == 0:
			s.Println("No external volumes")
		}
	}
	return nil
}

// external reads the pages of one provider.
func external(ctx context.Context, s *session.Session, plugin string) (all []*api.VolumeExternal, err error) {
	q := rest.Query{PerPage: externalPage}
	for len(all) < externalMax {
		out, err := s.ExternalVolumes(ctx, plugin, q)
		if err != nil {
			return all, err
		}
		all = append(all, out.Volumes...)
		switch out.NextToken {
		case "":
			return all, nil
		case q.NextToken:
			return all, fault.New(fault.Internal, "the provider returned the same page twice")
		}
		q.NextToken = out.NextToken
	}
	return all, fault.New(fault.Exhausted, "there are more than %d", externalMax)
}

func externalTable(volumes []*api.VolumeExternal) string {
	table := [][]string{{"External ID", "Capacity", "Condition", "Nodes"}}
	for _, v := range volumes {
		condition := "OK"
		if v.IsAbnormal {
			condition = "Abnormal (" + view.Line(v.Status) + ")"
		}
		size := ""
		if v.CapacityBytes > 0 {
			size = view.Bytes(v.CapacityBytes)
		}
		table = append(table, []string{v.ExternalID, view.OrNone(size), condition, view.OrNone(strings.Join(v.PublishedExternalNodeIDs, ","))})
	}
	return view.Table(table...)
}
