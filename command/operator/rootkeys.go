package operator

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// RootKeyList is "nomad operator root keyring list".
func RootKeyList(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "list the root keys", Flags: []cli.Flag{session.Verbose()},
		Run: func(ctx context.Context, s *session.Session) error {
			keys, err := s.RootKeys(ctx)
			if err != nil {
				return session.Failed("reading the root keys", err)
			}
			showRootKeys(s, keys, s.Bool("verbose"))
			return nil
		},
	}.Command()
}

// RootKeyRotate is "nomad operator root keyring rotate".
func RootKeyRotate(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "create a new root key; signatures of older keys stay valid",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "full", Usage: "encrypt all data with the new key"},
			&cli.BoolFlag{Name: "now", Usage: "use the new key immediately; this version always does"},
			&cli.StringFlag{Name: "prepublish", Usage: "`duration` for which the new key is published before it is used; not in this version"},
			session.Verbose(),
		},
		Run: func(ctx context.Context, s *session.Session) error {
			if s.String("prepublish") != "" {
				return fault.New(fault.Unimplemented, "-prepublish is not in this version: a new key is used immediately")
			}
			key, err := s.RotateRootKey(ctx, s.Bool("full"))
			if err != nil {
				return session.Failed("rotating the root key", err)
			}
			showRootKeys(s, []*api.RootKeyMeta{key}, s.Bool("verbose"))
			return nil
		},
	}.Command()
}

// RootKeyRemove is "nomad operator root keyring remove".
func RootKeyRemove(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "remove a root key; its signatures become invalid", Args: "<key ID>", Min: 1, Max: 1,
		Flags: []cli.Flag{&cli.BoolFlag{Name: "force", Usage: "remove the key even if it is in use"}},
		Run: func(ctx context.Context, s *session.Session) error {
			if err := s.DeleteRootKey(ctx, s.Arg(0), s.Bool("force")); err != nil {
				return session.Failed("removing the root key", err)
			}
			s.Printf("Removed root key %s\n", s.Arg(0))
			return nil
		},
	}.Command()
}

func showRootKeys(s *session.Session, keys []*api.RootKeyMeta, verbose bool) {
	table := [][]string{{"Key", "State", "Create Time", "Publish Time"}}
	for _, k := range keys {
		published := "<none>"
		if k.PublishTime != 0 {
			published = view.UnixTime(k.PublishTime)
		}
		table = append(table, []string{view.ID(k.KeyID, verbose), string(k.State), view.UnixTime(k.CreateTime), published})
	}
	s.Print(view.Table(table...))
}
