package volume

import (
	"context"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// Attachments is "nomad volume attachments".
func Attachments(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "list what is attached to nodes, and abandoned mounts, with the command that ends each", Format: true,
		Flags: []cli.Flag{
			session.Verbose(),
			&cli.StringFlag{Name: "node", Usage: "of one `node` only"},
			&cli.StringFlag{Name: "plugin", Usage: "of one `plugin` only"},
		},
		Run: attachments,
	}.Command()
}

func attachments(ctx context.Context, s *session.Session) error {
	q := rest.Query{Params: map[string][]string{}}
	if typed := s.String("node"); typed != "" {
		id, err := nodeOf(ctx, s, typed, "")
		if err != nil {
			return err
		}
		q.Params["node_id"] = []string{id}
	}
	if p := s.String("plugin"); p != "" {
		q.Params["plugin_id"] = []string{p}
	}
	list, _, err := s.Attachments(ctx, q)
	if err != nil {
		return session.Failed("querying attachments", err)
	}
	if s.Formatted() {
		return s.Document(list)
	}
	if len(list) == 0 {
		s.Println("No attachments")
		return nil
	}
	s.Print(attachmentTable(s, list))
	var errs []session.Reason
	for _, a := range list {
		errs = append(errs, session.Reason{Of: volumeOf(a) + " on node " + a.NodeID, Text: a.LastError})
	}
	s.Reasons(errs)
	return nil
}

func attachmentTable(s *session.Session, list []*api.AttachmentStub) string {
	now := time.Now()
	ids := map[string]map[string]bool{} // of each name
	for _, a := range list {
		if ids[a.NodeName] == nil {
			ids[a.NodeName] = map[string]bool{}
		}
		ids[a.NodeName][a.NodeID] = true
	}
	table := [][]string{{"Node", "Volume", "Plugin ID", "State", "Since", "Next Retry", "Last Error", "Ended By"}}
	for _, a := range list {
		node := s.ID(a.NodeID)
		if a.NodeName != "" && !s.Verbose {
			node = a.NodeName
			if len(ids[a.NodeName]) > 1 { // two rows of one machine
				node += " (" + s.ID(a.NodeID) + ")"
			}
		}
		table = append(table, []string{
			node, volumeOf(a), a.PluginID, a.State, s.When(a.Since), retry(a.NextRetry, now), view.OrNone(short(s, a.LastError)), a.Remedy,
		})
	}
	return view.Table(table...)
}

// volumeOf is a volume's id with its namespace, or the driver's id of one that is not registered any more.
func volumeOf(a *api.AttachmentStub) string {
	switch {
	case a.VolumeID == "":
		return a.ExternalID + " (not registered)"
	case a.Namespace != api.DefaultNamespace:
		return a.Namespace + "/" + a.VolumeID
	}
	return a.VolumeID
}

// errorShown is how much of an error a table with more columns after it shows, in characters.
const errorShown = 60

func short(s *session.Session, text string) string {
	line := view.Line(text)
	if r := []rune(line); len(r) > errorShown && !s.Verbose {
		return string(r[:errorShown]) + "..."
	}
	return line
}
