package operator

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// KeyGenerate is "nomad operator gossip keyring generate".
func KeyGenerate(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "generate a gossip key",
		Run: func(_ context.Context, s *session.Session) error {
			key := make([]byte, 32)
			if _, err := rand.Read(key); err != nil {
				return fmt.Errorf("make a key: %w", err)
			}
			s.Println(base64.StdEncoding.EncodeToString(key))
			return nil
		},
	}.Command()
}

// KeyList is "nomad operator gossip keyring list".
func KeyList(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "list the gossip keys and the number of servers that have each",
		Run: func(ctx context.Context, s *session.Session) error {
			s.Println("Gathering installed encryption keys...")
			out, err := keys(ctx, s, api.KeyringList, "")
			if err != nil {
				return err
			}
			table := [][]string{{"Key", "Servers"}}
			for _, k := range slices.Sorted(maps.Keys(out.Keys)) {
				table = append(table, []string{k, fmt.Sprintf("%d/%d", out.Keys[k], out.NumNodes)})
			}
			s.Print(view.Table(table...))
			return nil
		},
	}.Command()
}

// KeyInstall is "nomad operator gossip keyring install".
func KeyInstall(name string) *cli.Command {
	return keyVerb(name, "give a new key to all servers", "Installing new gossip encryption key...", api.KeyringInstall)
}

// KeyUse is "nomad operator gossip keyring use".
func KeyUse(name string) *cli.Command {
	return keyVerb(name, "encrypt with another key from now on", "Changing primary gossip encryption key...", api.KeyringUse)
}

// KeyRemove is "nomad operator gossip keyring remove".
func KeyRemove(name string) *cli.Command {
	return keyVerb(name, "take a key from all servers", "Removing gossip encryption key...", api.KeyringRemove)
}

func keyVerb(name, usage, says string, op api.KeyringOp) *cli.Command {
	return session.Verb{
		Name: name, Usage: usage, Args: "<key>", Min: 1, Max: 1,
		Run: func(ctx context.Context, s *session.Session) error {
			s.Println(says)
			_, err := keys(ctx, s, op, s.Arg(0))
			return err
		},
	}.Command()
}

func keys(ctx context.Context, s *session.Session, op api.KeyringOp, key string) (*api.KeyringResponse, error) {
	out, err := s.Keyring(ctx, op, key)
	if err != nil {
		return nil, session.Failed("changing the gossip keys", err)
	}
	for _, server := range slices.Sorted(maps.Keys(out.Messages)) {
		s.Warnf("%s: %s", view.Inline(server), view.Inline(out.Messages[server]))
	}
	return out, nil
}
