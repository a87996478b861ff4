package acl

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Roles lists roles by id: all of them to management tokens, their own to others.
func (s *Service) Roles(ctx context.Context, q *api.QueryOptions) (*api.ACLRoleListResponse, error) {
	out := &api.ACLRoleListResponse{}
	var err error
	out.Roles, err = page.Read(ctx, s.State, q, &out.QueryMeta, []state.Key{state.TableKey(state.TableACLRoles)}, func(tx *state.Txn) page.List[*api.ACLRole, *api.ACLRole] {
		l := page.Stored(tx.ACLRoleSpan, func(r *api.ACLRole) string { return r.ID })
		if c := access.Of(ctx); !c.Rights.IsManagement() {
			has := ownOf(tx, c.Token).roles
			l.Keep = func(r *api.ACLRole) bool { return has[r.ID] }
		}
		return l
	})
	return out, err
}

// Role reads one role by its id or its name. Management tokens may read all, others their own.
func (s *Service) Role(ctx context.Context, r *api.ACLRoleRequest) (*api.ACLRoleResponse, error) {
	get := func(tx *state.Txn) *api.ACLRole {
		if r.ID == "" {
			return tx.ACLRoleByName(r.Name)
		}
		return tx.ACLRole(r.ID)
	}
	if c := access.Of(ctx); !c.Rights.IsManagement() {
		tx := s.State.Read()
		if role := get(tx); role == nil || !ownOf(tx, c.Token).roles[role.ID] {
			return nil, access.ErrDenied
		}
	}
	key := state.ACLRoleKey(r.ID)
	if r.ID == "" {
		key = state.ACLRoleNameKey(r.Name)
	}
	out := &api.ACLRoleResponse{}
	var err error
	out.Role, err = read(ctx, s, &r.QueryOptions, &out.QueryMeta, key, get)
	return out, err
}

// UpsertRole creates a role, or replaces the one with the id of the request.
func (s *Service) UpsertRole(ctx context.Context, r *api.ACLRoleUpsertRequest) (*api.ACLRoleWriteResponse, error) {
	if r.Role == nil {
		return nil, fault.New(fault.Invalid, "missing role")
	}
	role := *r.Role
	cmd := &UpsertRole{Role: &role, Create: role.ID == ""}
	tx := s.State.Read()
	if cmd.Create {
		role.ID = uuid.NewString()
	} else if tx.ACLRole(role.ID) == nil {
		return nil, errNoRole
	}
	if err := invalid("role 0", checkName(role.Name), checkDescription(role.Description), checkPolicies(tx, &role)); err != nil {
		return nil, err
	}
	role.Hash = hashRole(&role)
	res, err := s.Raft.Propose(ctx, cmd)
	if err != nil {
		return nil, err
	}
	stored, _ := res.Value.(*api.ACLRole)
	return &api.ACLRoleWriteResponse{Role: stored, WriteMeta: api.WriteMeta{Index: res.Index}}, nil
}

// checkPolicies checks that the policies of a role exist, and drops those that are named twice.
func checkPolicies(tx *state.Txn, r *api.ACLRole) error {
	if len(r.Policies) == 0 {
		return errors.New("at least one policy should be specified")
	}
	var links []*api.ACLRolePolicyLink
	for _, p := range r.Policies {
		if tx.ACLPolicy(p.Name) == nil {
			return fmt.Errorf("cannot find policy %s", p.Name)
		}
		if !slices.ContainsFunc(links, func(l *api.ACLRolePolicyLink) bool { return l.Name == p.Name }) {
			links = append(links, &api.ACLRolePolicyLink{Name: p.Name})
		}
	}
	r.Policies = links
	return nil
}

func hashRole(r *api.ACLRole) []byte {
	texts := []string{r.Name, r.Description}
	for _, p := range r.Policies {
		texts = append(texts, p.Name)
	}
	return hash(texts...)
}

// DeleteRole deletes a role. Tokens may name it still.
func (s *Service) DeleteRole(ctx context.Context, r *api.NameWriteRequest) (*api.WriteMeta, error) {
	return s.propose(ctx, &DeleteRole{ID: r.Name})
}
