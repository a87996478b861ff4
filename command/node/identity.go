package node

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/find"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

func identityGet(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "show the claims of the identity of a node", Args: "<node>", Min: 1, Max: 1, Format: true,
		Run: func(ctx context.Context, s *session.Session) error {
			n, err := find.Node(ctx, s, s.Arg(0))
			if err != nil {
				return err
			}
			body, err := s.NodeIdentity(ctx, n.ID)
			if err != nil {
				return session.Failed("reading node identity", err)
			}
			var claims map[string]any
			if err := json.Unmarshal(body, &claims); err != nil {
				return session.Failed("reading node identity", err)
			}
			if s.Formatted() {
				return s.Document(claims)
			}
			table := [][]string{{"Claim Key", "Claim Value"}}
			for _, key := range slices.Sorted(maps.Keys(claims)) {
				table = append(table, []string{key, claimText(claims[key])})
			}
			s.Print(view.Table(table...))
			return nil
		},
	}.Command()
}

// claimText is the value of a claim; numbers are times in seconds.
func claimText(v any) string {
	switch v := v.(type) {
	case float64:
		return strconv.FormatInt(int64(v), 10) + " (" + time.Unix(int64(v), 0).UTC().Format(time.RFC3339) + ")"
	case []any:
		if len(v) == 1 {
			return claimText(v[0])
		}
	}
	return fmt.Sprint(v)
}

func identityRenew(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "make a node request a new identity", Args: "<node>", Min: 1, Max: 1,
		Run: func(ctx context.Context, s *session.Session) error {
			n, err := find.Node(ctx, s, s.Arg(0))
			if err != nil {
				return err
			}
			if err := s.RenewNodeIdentity(ctx, n.ID); err != nil {
				return session.Failed("renewing node identity", err)
			}
			s.Printf("Node %q requests a new identity with its next heartbeat\n", n.ID)
			return nil
		},
	}.Command()
}

func introCreate(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "create a token that introduces new nodes", Format: true,
		Description: "Start the client with -client-intro-token, or write the token to intro_token.jwt in its state directory.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "node-name", Usage: "accept the token for a node of this `name` only"},
			&cli.StringFlag{Name: "node-pool", Usage: "accept the token for a node in this `pool` only"},
			&cli.StringFlag{Name: "ttl", Usage: "`duration` for which the token is valid"},
		},
		Run: func(ctx context.Context, s *session.Session) error {
			r := api.NodeIntroductionRequest{NodeName: s.String("node-name"), NodePool: s.String("node-pool")}
			if text := s.String("ttl"); text != "" {
				var err error
				if r.TTL, err = time.ParseDuration(text); err != nil || r.TTL <= 0 {
					return fault.New(fault.Invalid, "-ttl %q is not a positive duration such as 10m", text)
				}
			}
			out, err := s.IntroduceNode(ctx, r)
			if err != nil {
				return session.Failed("creating introduction token", err)
			}
			if s.Formatted() {
				return s.Document(struct{ JWT string }{out.JWT})
			}
			s.Printf("Successfully created client introduction token:\n\n")
			s.Println(out.JWT)
			return nil
		},
	}.Command()
}
