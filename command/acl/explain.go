package acl

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// single are the objects without a name.
var single = []api.RightOn{api.OnNode, api.OnAgent, api.OnOperator, api.OnQuota, api.OnPlugin}

func explain(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "show the rule that permits or refuses a capability", Args: "<capability>", Min: 1, Max: 1, Format: true,
		Description: "A capability is on the namespace, unless -pool, -host-volume or -variable is given or it has a prefix:\n" +
			"node:read, agent:write, operator:keyring-read, quota:read, plugin:list. Exit code 1 means refused.\n\n" +
			"  nomad acl explain -namespace dev submit-job",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "accessor", Usage: "accessor `id` of the token; the own token by default"},
			&cli.StringFlag{Name: "pool", Usage: "`name` of the node pool that the capability is on"},
			&cli.StringFlag{Name: "host-volume", Usage: "`name` of the host volume that the capability is on"},
			&cli.StringFlag{Name: "variable", Usage: "`path` of the variable that the capability is on"},
		},
		Run: func(ctx context.Context, s *session.Session) error {
			right, object, err := asked(s)
			if err != nil {
				return err
			}
			found, err := s.ACLExplain(ctx, s.String("accessor"), right, object)
			if err != nil {
				return session.Failed("explaining "+s.Arg(0), err)
			}
			if s.Formatted() {
				err = s.Document(found)
			} else {
				show(s, found)
			}
			if err == nil && !found.Verdict.Allowed {
				return &session.Exit{Code: 1}
			}
			return err
		},
	}.Command()
}

// asked is the right that the arguments name, and the name of its object.
func asked(s *session.Session) (right api.Right, object string, err error) {
	right = api.Right{On: api.OnNamespace, Any: []string{s.Arg(0)}}
	object = s.Namespace()
	if on, capability, found := strings.Cut(s.Arg(0), ":"); found {
		right = api.Right{On: api.RightOn(on), Any: []string{capability}}
		if !slices.Contains(single, right.On) || capability == "" {
			return right, "", fault.New(fault.Invalid, "capability %q: expected a capability such as submit-job, or one of %v with a capability, such as node:read", s.Arg(0), single)
		}
		object = ""
	}
	for flag, on := range map[string]api.RightOn{"pool": api.OnNodePool, "host-volume": api.OnHostVolume, "variable": api.OnVariable} {
		if !s.IsSet(flag) {
			continue
		}
		if right.On != api.OnNamespace {
			return right, "", fault.New(fault.Invalid, "-%s cannot be combined with %s", flag, right.On)
		}
		right.On, object = on, s.String(flag)
	}
	switch {
	case (right.On == api.OnNamespace || right.On == api.OnVariable) && s.Namespace() == api.AllNamespaces:
		return right, "", fault.New(fault.Invalid, "-namespace %q: a capability is explained for one namespace", s.Namespace())
	case right.On == api.OnVariable:
		object = s.Namespace() + "/" + object
	}
	return right, object, nil
}

func show(s *session.Session, found *api.ACLExplainResponse) {
	verdict, none := "refused", "no rule permits it"
	if found.Verdict.Allowed {
		verdict, none = "allowed", "management tokens need no rule"
	}
	rule := cmp.Or(found.Verdict.Rule, none)
	s.Println(verdict)
	s.Print(view.Pairs([2]string{"Accessor ID", found.AccessorID}, [2]string{"Policy", found.Verdict.Policy}, [2]string{"Rule", rule}))
}
