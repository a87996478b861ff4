package acl

import (
	"context"
	"errors"
	"fmt"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/acl/policy"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Policies lists policies by name: all of them to management tokens, their own to others.
func (s *Service) Policies(ctx context.Context, q *api.QueryOptions) (*api.ACLPolicyListResponse, error) {
	out := &api.ACLPolicyListResponse{}
	var err error
	out.Policies, err = page.Read(ctx, s.State, q, &out.QueryMeta, []state.Key{state.TableKey(state.TableACLPolicies)}, func(tx *state.Txn) page.List[*api.ACLPolicy, *api.ACLPolicy] {
		l := page.Stored(tx.ACLPolicySpan, func(p *api.ACLPolicy) string { return p.Name })
		if c := access.Of(ctx); !c.Rights.IsManagement() {
			has := ownOf(tx, c.Token).policies
			l.Keep = func(p *api.ACLPolicy) bool { return has[p.Name] }
		}
		return l
	})
	return out, err
}

// Policy reads one policy. Management tokens may read all, others their own.
func (s *Service) Policy(ctx context.Context, r *api.NameRequest) (*api.ACLPolicyResponse, error) {
	out := &api.ACLPolicyResponse{}
	if c := access.Of(ctx); !c.Rights.IsManagement() && !ownOf(s.State.Read(), c.Token).policies[r.Name] {
		return nil, access.ErrDenied
	}
	var err error
	out.Policy, err = read(ctx, s, &r.QueryOptions, &out.QueryMeta, state.ACLPolicyKey(r.Name), func(tx *state.Txn) *api.ACLPolicy { return tx.ACLPolicy(r.Name) })
	return out, err
}

// UpsertPolicies creates or replaces policies.
func (s *Service) UpsertPolicies(ctx context.Context, r *api.ACLPolicyUpsertRequest) (*api.WriteMeta, error) {
	if len(r.Policies) == 0 {
		return nil, fault.New(fault.Invalid, "must specify as least one policy")
	}
	cmd := &UpsertPolicies{}
	for i, given := range r.Policies {
		if given == nil {
			return nil, fault.New(fault.Invalid, "missing policy")
		}
		p := *given
		if err := invalid(fmt.Sprintf("policy %d", i), checkName(p.Name), checkRules(p.Rules), checkDescription(p.Description), checkJob(p.JobACL)); err != nil {
			return nil, err
		}
		p.Hash = hashPolicy(&p)
		cmd.Policies = append(cmd.Policies, &p)
	}
	return s.propose(ctx, cmd)
}

func checkRules(rules string) error {
	_, err := policy.Parse(rules)
	return err
}

func checkJob(j *api.JobACL) error {
	switch {
	case j == nil:
		return nil
	case j.JobID == "" && (j.Group != "" || j.Task != ""):
		return errors.New("a policy of a group or a task needs the job")
	case j.JobID == "":
		return errors.New("a policy of a job needs the id of the job")
	case j.Task != "" && j.Group == "":
		return errors.New("a policy of a task needs the group of the task")
	case j.Namespace == "":
		return errors.New("a policy of a job needs the namespace of the job")
	}
	return nil
}

func hashPolicy(p *api.ACLPolicy) []byte {
	texts := []string{p.Name, p.Description, p.Rules}
	if j := p.JobACL; j != nil {
		texts = append(texts, j.Namespace, j.JobID, j.Group, j.Task)
	}
	return hash(texts...)
}

// DeletePolicy deletes a policy. Tokens and roles may name it still.
func (s *Service) DeletePolicy(ctx context.Context, r *api.NameWriteRequest) (*api.WriteMeta, error) {
	return s.propose(ctx, &DeletePolicy{Name: r.Name})
}
