package acl

import (
	"context"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

var policies = kind[api.ACLPolicy, api.ACLPolicyListStub]{
	name: "ACL policy", plural: "ACL policies", arg: "<name>",
	of: func(s *session.Session) rest.Objects[api.ACLPolicy, api.ACLPolicyListStub] {
		return s.ACLPolicies()
	},
	heading: []string{"Name", "Description"},
	row:     func(p *api.ACLPolicyListStub) []string { return []string{p.Name, view.OrNone(p.Description)} },
	show:    showPolicy,
	deleted: "Successfully deleted %s policy!",
}

func showPolicy(s *session.Session, p *api.ACLPolicy) {
	s.Print(view.Pairs([2]string{"Name", p.Name}, [2]string{"Description", p.Description},
		[2]string{"CreateIndex", index(p.CreateIndex)}, [2]string{"ModifyIndex", index(p.ModifyIndex)}))
	if j := p.JobACL; j != nil {
		s.Titled("Associated Workload", view.Pairs([2]string{"Namespace", j.Namespace}, [2]string{"JobID", j.JobID},
			[2]string{"Group", j.Group}, [2]string{"Task", j.Task}))
	}
	s.Printf("\nRules\n\n")
	s.Print(view.Indent(view.Text(strings.TrimRight(p.Rules, "\n")), 2) + "\n") // indented: no line of a rule looks like output
}

func index(i uint64) string { return strconv.FormatUint(i, 10) }

func policyApply(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "create or update an ACL policy from a file", Args: "<name> <file, - for stdin>", Min: 2, Max: 2,
		Description: "With -job the policy applies to the workloads of that job in -namespace, and needs no token.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "description", Usage: "description `text`"},
			&cli.StringFlag{Name: "job", Usage: "attach the policy to the workloads of this `job`"},
			&cli.StringFlag{Name: "group", Usage: "only to this `group` of the job"},
			&cli.StringFlag{Name: "task", Usage: "only to this `task` of the group"},
		},
		Run: func(ctx context.Context, s *session.Session) error {
			p := &api.ACLPolicy{Name: s.Arg(0), Description: s.String("description")}
			job, group, task := s.String("job"), s.String("group"), s.String("task")
			switch {
			case group != "" && job == "":
				return fault.New(fault.Invalid, "-group needs -job")
			case task != "" && group == "":
				return fault.New(fault.Invalid, "-task needs -group")
			case job != "":
				p.JobACL = &api.JobACL{Namespace: s.Namespace(), JobID: job, Group: group, Task: task}
			}
			_, text, err := s.Source(s.Arg(1))
			if err != nil {
				return session.Failed("reading policy file", err)
			}
			p.Rules = string(text)
			if err := s.ACLPolicies().Put(ctx, p.Name, p); err != nil {
				return session.Failed("writing ACL policy", err)
			}
			s.Printf("Successfully wrote %q ACL policy!\n", p.Name)
			return nil
		},
	}.Command()
}

func policySelf(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "list the policies of the own token", Format: true,
		Run: func(ctx context.Context, s *session.Session) error {
			found, err := s.ACLPoliciesSelf(ctx)
			if err != nil {
				return session.Failed("reading the policies of the token", err)
			}
			if s.Formatted() {
				return s.Document(found)
			}
			if len(found) == 0 {
				s.Println("No policies found: the token is a management token or has no policy")
				return nil
			}
			table := [][]string{{"Name", "Job ID", "Group Name", "Task Name"}}
			for _, p := range found {
				j := p.JobACL
				if j == nil {
					j = &api.JobACL{}
				}
				table = append(table, []string{p.Name, view.OrNone(j.JobID), view.OrNone(j.Group), view.OrNone(j.Task)})
			}
			s.Print(view.Table(table...))
			return nil
		},
	}.Command()
}
