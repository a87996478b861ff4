package operator

import (
	"context"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/find"
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
		Name: name, Usage: "create a new root key; signatures of older keys stay valid, and all data is encrypted with the new key",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "full", Usage: "encrypt all data with the new key; every rotation does"},
			&cli.BoolFlag{Name: "now", Usage: "use the new key immediately; this is the default"},
			&cli.DurationFlag{Name: "prepublish", Usage: "`duration` for which the new public keys are published before the new key is used"},
			session.Verbose(),
		},
		Run: func(ctx context.Context, s *session.Session) error {
			at := time.Time{}
			if s.IsSet("prepublish") {
				ahead := s.Duration("prepublish")
				if s.Bool("now") || ahead <= 0 {
					return fault.New(fault.Invalid, "-prepublish needs a positive duration, such as 1h, and excludes -now")
				}
				at = time.Now().Add(ahead)
			}
			key, err := s.RotateRootKey(ctx, s.Bool("full"), at)
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
		Name: name, Usage: "remove a root key that nothing uses; its signatures become invalid", Args: "<key ID>", Min: 1, Max: 1,
		Flags: []cli.Flag{&cli.BoolFlag{Name: "force", Usage: "remove the key even if it is in use: what it encrypted becomes unreadable"}},
		Run: func(ctx context.Context, s *session.Session) error {
			keys, err := s.RootKeys(ctx)
			if err != nil {
				return session.Failed("reading the root keys", err)
			}
			key, err := find.RootKey(keys, s.Arg(0), rootKeyTable)
			if err != nil {
				return err
			}
			if err := s.DeleteRootKey(ctx, key.KeyID, s.Bool("force")); err != nil {
				return session.Failed("removing the root key", err)
			}
			s.Printf("Removed root key %s\n", key.KeyID)
			return nil
		},
	}.Command()
}

func showRootKeys(s *session.Session, keys []*api.RootKeyMeta, verbose bool) {
	s.Print(rootKeyTable(keys, verbose))
}

func rootKeyTable(keys []*api.RootKeyMeta, verbose bool) string {
	table := [][]string{{"Key", "State", "Create Time", "Publish Time"}}
	for _, k := range keys {
		published := "<none>"
		if k.PublishTime != 0 {
			published = view.UnixTime(k.PublishTime)
		}
		table = append(table, []string{view.ID(k.KeyID, verbose), string(k.State), view.UnixTime(k.CreateTime), published})
	}
	return view.Table(table...)
}
