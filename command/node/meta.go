package node

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/find"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

func metaNode() cli.Flag {
	return &cli.StringFlag{Name: "node-id", Usage: "use the `node` instead of that of the contacted agent"}
}

// metaTarget is the id of the node of -node-id; empty is the node of the contacted agent.
func metaTarget(ctx context.Context, s *session.Session) (string, error) {
	text := s.String("node-id")
	if text == "" {
		return "", nil
	}
	n, err := find.Node(ctx, s, text)
	if err != nil {
		return "", err
	}
	return n.ID, nil
}

func metaApply(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "change the dynamic metadata of a node", Args: "[<key>=<value>...]", Max: -1,
		Description: "The metadata of the agent's configuration stays as it is: a dynamic key hides the one of the configuration. " +
			"The change outlives the agent, and jobs see it at once in their constraints.",
		Flags: []cli.Flag{metaNode(), &cli.StringFlag{Name: "unset", Usage: "remove the `keys`, separated by commas"}},
		Run: func(ctx context.Context, s *session.Session) error {
			r := api.NodeMetaChange{Meta: map[string]*string{}}
			for _, pair := range s.Args {
				key, value, ok := strings.Cut(pair, "=")
				if !ok || key == "" {
					return fault.New(fault.Invalid, "%q is not of the form key=value; -unset removes keys", pair)
				}
				r.Meta[key] = &value
			}
			for key := range strings.SplitSeq(s.String("unset"), ",") {
				if key != "" {
					r.Meta[key] = nil
				}
			}
			if len(r.Meta) == 0 {
				return fault.New(fault.Invalid, "specify key=value, or -unset with keys")
			}
			var err error
			if r.NodeID, err = metaTarget(ctx, s); err != nil {
				return err
			}
			if _, err := s.ApplyNodeMeta(ctx, r); err != nil {
				return session.Failed("applying node metadata", err)
			}
			s.Printf("Metadata of %s is changed\n", cmp.Or(r.NodeID, "the node of this agent"))
			return nil
		},
	}.Command()
}

func metaRead(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "show the metadata of a node", Format: true, Flags: []cli.Flag{metaNode()},
		Run: func(ctx context.Context, s *session.Session) error {
			id, err := metaTarget(ctx, s)
			if err != nil {
				return err
			}
			out, err := s.NodeMeta(ctx, id)
			if err != nil {
				return session.Failed("reading node metadata", err)
			}
			if s.Formatted() {
				return s.Document(out)
			}
			table := [][]string{{"Key", "Value", "Source"}}
			for _, key := range slices.Sorted(maps.Keys(out.Meta)) {
				source := "static"
				if _, dynamic := out.Dynamic[key]; dynamic {
					source = "dynamic"
				}
				table = append(table, []string{key, out.Meta[key], source})
			}
			for _, key := range slices.Sorted(maps.Keys(out.Dynamic)) {
				if out.Dynamic[key] == nil {
					table = append(table, []string{key, "", "unset"})
				}
			}
			s.Print(view.Table(table...))
			return nil
		},
	}.Command()
}
